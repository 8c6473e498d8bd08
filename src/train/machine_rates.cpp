#include "hgtrain/train/machine_rates.h"

#include <algorithm>
#include <cstring>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/ops/gemm.h"

namespace hgt {

double measure_matrix_rate(ThreadPool& pool, DType dtype, double budget_ms) {
  const Span span = Span::seldom("measure the matrix rate");
  // The smaller fits between two interruptions where the machine is busy.
  constexpr std::int64_t kSizes[] = {256, 512};
  constexpr int kRepeats = 4;  // at least: the first ones set the library up
  if (!cpu_multiplies(dtype)) dtype = DType::kF32;
  const Buffer memory("matrix rate", 3 * 512 * 512 * 4);
  std::fill(memory.as<float>().begin(), memory.as<float>().end(), 0.5f);
  double best = 0;
  const std::int64_t begin_ns = now_ns();
  for (int i = 0; i < kRepeats || ms_since(begin_ns) < budget_ms; ++i) {
    const std::int64_t n = kSizes[i % 2];
    float* const data = memory.as<float>().data();
    const Tensor a(data, {n, n}, dtype), b(data + n * n, {n, n}, dtype);
    const Tensor c(data + 2 * n * n, {n, n}, dtype);
    const std::int64_t start_ns = now_ns();
    gemm(1, a, b, 0, c, Stream(pool));
    best = std::max(best, 2.0 * static_cast<double>(n * n * n) / (ms_since(start_ns) * 1e-3));
  }
  return best;
}

double measure_copy_rate(ThreadPool& pool) {
  const Span span = Span::seldom("measure the copy rate");
  constexpr std::int64_t kBytes = 64 << 20;
  constexpr int kRepeats = 12;  // the first touches the pages
  const Buffer from("copy from", kBytes), to("copy to", kBytes);
  std::memset(from.data(), 1, kBytes);
  double best = 0;
  for (int i = 0; i < kRepeats; ++i) {
    const std::int64_t start_ns = now_ns();
    pool.parallel_for(kBytes, [&](std::int64_t begin, std::int64_t end, int) {
      std::memcpy(to.as<std::byte>().data() + begin, from.as<std::byte>().data() + begin,
                  static_cast<std::size_t>(end - begin));
    });
    best = std::max(best, 2.0 * static_cast<double>(kBytes) / (ms_since(start_ns) * 1e-3));
  }
  return best;
}

}  // namespace hgt
