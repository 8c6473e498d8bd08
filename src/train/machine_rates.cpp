#include "hgtrain/train/machine_rates.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/ops/gemm.h"

namespace hgt {
namespace {

/// Seconds until all that fn() gives the stream is done.
template <class Fn>
double seconds_of(const Stream& stream, const Fn& fn) {
  const std::int64_t start_ns = now_ns();
  fn();
  stream.synchronize();
  return ms_since(start_ns) * 1e-3;
}

}  // namespace

void copy_all(const Buffer& from, const Buffer& to, Stream stream) {
  if (!stream.device().is_cpu())
    return stream.copy(to.data(), from.data(), static_cast<std::size_t>(to.bytes()));
  stream.pool().parallel_for(to.bytes(), [&](std::int64_t begin, std::int64_t end, int) {
    std::memcpy(to.as<std::byte>().data() + begin, from.as<std::byte>().data() + begin,
                static_cast<std::size_t>(end - begin));
  });
}

double measure_matrix_rate(Stream stream, DType dtype, double budget_ms) {
  const Span span = Span::seldom("measure the matrix rate");
  const bool on_cpu = stream.device().is_cpu();
  if (on_cpu && !cpu_multiplies(dtype)) dtype = DType::kF32;
  // On the CPU what fits between two interruptions where the machine is busy; another device is
  // given more while it is done in no time.
  const std::int64_t largest = on_cpu ? 512 : 4096;
  constexpr double kLongSeconds = 1e-3;
  const int repeats = on_cpu ? 4 : 16;  // at least: the first ones set the library up
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  const Buffer memory("matrix rate", 3 * largest * largest * element, stream.device());
  const std::vector<float> values(static_cast<std::size_t>(memory.bytes()) / 4, 0.5f);
  stream.copy(memory.data(), values.data(), static_cast<std::size_t>(memory.bytes()));
  double best = 0;
  std::int64_t n = on_cpu ? 256 : 128;
  const std::int64_t begin_ns = now_ns();
  for (int i = 0; i < repeats || ms_since(begin_ns) < budget_ms; ++i) {
    const auto square = [&](int number) {
      return Tensor(memory.as<std::byte>().data() + number * n * n * element, {n, n}, dtype,
                    stream.device());
    };
    const double seconds =
        seconds_of(stream, [&] { gemm(1, square(0), square(1), 0, square(2), stream); });
    best = std::max(best, 2.0 * static_cast<double>(n * n * n) / seconds);
    if (i % 2 == 1 && seconds < kLongSeconds && n < largest) n *= 2;
  }
  return best;
}

double measure_copy_rate(Stream stream) {
  const Span span = Span::seldom("measure the copy rate");
  const std::int64_t bytes = stream.device().is_cpu() ? 64 << 20 : 512 << 20;
  constexpr int kRepeats = 12;  // the first touches the pages
  const Buffer from("copy from", bytes, stream.device()), to("copy to", bytes, stream.device());
  if (stream.device().is_cpu()) std::memset(from.data(), 1, static_cast<std::size_t>(bytes));
  double best = 0;
  for (int i = 0; i < kRepeats; ++i) {
    const double seconds = seconds_of(stream, [&] { copy_all(from, to, stream); });
    best = std::max(best, 2.0 * static_cast<double>(bytes) / seconds);
  }
  return best;
}

}  // namespace hgt
