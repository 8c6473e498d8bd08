#include "hgtrain/train/machine_rates.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/element.h"
#include "hgtrain/base/philox.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/machine/resources.h"
#include "hgtrain/ops/gemm.h"
#include "hgtrain/train/process_memory.h"

namespace hgt {
namespace {

/// Seconds until all work that fn() queues on the stream is done.
template <class Fn>
double seconds_of(const Stream& stream, const Fn& fn) {
  const std::int64_t start_ns = now_ns();
  fn();
  stream.synchronize();
  return ms_since(start_ns) * 1e-3;
}

}  // namespace

Buffer drawn_numbers(const char* name, std::int64_t count, DType dtype, Stream stream) {
  constexpr std::int64_t kDrawn =
      (1 << 20) + 7;  // after these the numbers repeat, shifted against the rows
  const std::int64_t drawn = std::min(count, kDrawn),
                     element = static_cast<std::int64_t>(size_of(dtype));
  Buffer host(name, drawn * element);
  visit_element(dtype, [&]<class T>(T) {
    const std::span<T> values = host.as<T>();
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(static_cast<std::int32_t>(philox(0, 0, i)[0])) * 0x1p-31f;
  });
  Buffer there(name, count * element, stream.device());
  const std::span<std::byte> bytes = there.as<std::byte>();
  stream.copy(bytes.data(), host.data(), static_cast<std::size_t>(host.bytes()));
  for (auto done = static_cast<std::size_t>(host.bytes()); done < bytes.size();) {
    const std::size_t more = std::min(done, bytes.size() - done);
    stream.copy(bytes.data() + done, bytes.data(), more);
    done += more;
  }
  stream.synchronize();
  return there;
}

void copy_all(const Buffer& from, const Buffer& to, Stream stream) {
  if (!stream.device().is_cpu())
    return stream.copy(to.data(), from.data(), static_cast<std::size_t>(to.bytes()));
  stream.pool().parallel_for(to.bytes(), [&](std::int64_t begin, std::int64_t end, int) {
    std::memcpy(to.as<std::byte>().data() + begin, from.as<std::byte>().data() + begin,
                static_cast<std::size_t>(end - begin));
  });
}

double measure_matrix_rate(Stream stream, DType dtype, double budget_ms) {
  const Span span = Span::rare("measure the matrix rate");
  const bool on_cpu = stream.device().is_cpu();
  if (on_cpu && !cpu_multiplies(dtype)) dtype = DType::kF32;
  // Small products fit between two interruptions of a busy CPU, large ones keep many threads busy.
  // The first of a size sets the library up.
  const std::vector<std::int64_t> sizes = on_cpu ? std::vector<std::int64_t>{256, 512, 1024}
                                                 : std::vector<std::int64_t>{128, 512, 2048, 4096};
  constexpr double kLongSeconds = 0.02;  // a size whose products would take longer is not tried
  constexpr int kRounds = 3;             // at least
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  const Buffer memory = drawn_numbers("the matrices of the speed test",
                                      3 * sizes.back() * sizes.back(), dtype, stream);
  double best = 0;
  const std::int64_t begin_ns = now_ns();
  for (int round = 0; round < kRounds || ms_since(begin_ns) < budget_ms; ++round) {
    double flops_per_sec = 0;
    for (const std::int64_t n : sizes) {
      const double flops = 2.0 * static_cast<double>(n * n * n);
      if (flops > flops_per_sec * kLongSeconds && n > sizes.front()) break;
      const auto square = [&](int number) {
        return Tensor(memory.as<std::byte>().data() + number * n * n * element, {n, n}, dtype,
                      stream.device());
      };
      flops_per_sec =
          flops / seconds_of(stream, [&] { gemm(1, square(0), square(1), 0, square(2), stream); });
      best = std::max(best, flops_per_sec);
    }
  }
  return best;
}

CoreShare share_cores(int ranks, int threads, double cores) {
  const int measuring = std::clamp(static_cast<int>(cores / threads), 1, ranks);
  return {measuring, std::min<double>(ranks * threads, cores) /
                         (measuring * std::min<double>(threads, cores))};
}

PeakRate PeakRate::measure(Stream stream, DType dtype, Communicator& comm) {
  PeakRate peak(stream, dtype, comm.rank() == 0 && stream.device().is_cpu());
  CoreShare share{comm.size()};
  if (stream.device().is_cpu()) {
    const double cores = usable_cores(), quota = resources_of().cpu_quota;
    share = share_cores(comm.size(), stream.pool().threads(),
                        quota > 0 ? std::min(quota, cores) : cores);
  }
  comm.barrier();  // ranks measure at the same time, because they also compute at the same time
  if (comm.rank() < share.measuring) peak.rank_flops_ = measure_matrix_rate(stream, dtype);
  double sum = peak.rank_flops_;
  comm.all_reduce_sum(std::span(&sum, 1));
  peak.world_flops_ = sum * share.scale;
  return peak;
}

double PeakRate::share(double flops) {
  if (flops > world_flops_ && measures_again_) {
    const double again = std::max(rank_flops_, measure_matrix_rate(stream_, dtype_));
    world_flops_ *= again / std::exchange(rank_flops_, again);
    restart_peak_memory();  // the measurement's memory does not count as training's
  }
  world_flops_ = std::max(world_flops_, flops);
  return flops / world_flops_;
}

double measure_copy_rate(Stream stream) {
  const Span span = Span::rare("measure the copy rate");
  const std::int64_t bytes = stream.device().is_cpu() ? 64 << 20 : 512 << 20;
  constexpr int kRepeats = 12;  // the first one touches the pages
  const Buffer from = drawn_numbers("copy from", bytes / 4, DType::kF32, stream),
               to("copy to", bytes, stream.device());
  double best = 0;
  for (int i = 0; i < kRepeats; ++i) {
    const double seconds = seconds_of(stream, [&] { copy_all(from, to, stream); });
    best = std::max(best, 2.0 * static_cast<double>(bytes) / seconds);
  }
  return best;
}

}  // namespace hgt
