#include "matrix_rate.h"

#include <algorithm>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/ops/gemm.h"

namespace hgt {

double measure_matrix_rate(ThreadPool& pool) {
  // The smaller fits between two interruptions where the machine is busy.
  constexpr std::int64_t kSizes[] = {256, 768};
  constexpr int kRepeats = 12;  // at least: the first ones set the library up
  constexpr double kLongEnoughMs = 200;
  const Span span = Span::seldom("measure the matrix rate");
  const Buffer memory("matrix rate", 3 * 768 * 768 * 4);
  float* data = memory.as<float>().data();
  std::fill(data, data + 3 * 768 * 768, 0.5f);
  double best = 0;
  const std::int64_t begin_ns = now_ns();
  for (int i = 0; i < kRepeats || ms_since(begin_ns) < kLongEnoughMs; ++i) {
    const std::int64_t n = kSizes[i % 2];
    const Tensor a(data, {n, n}), b(data + n * n, {n, n}), c(data + 2 * n * n, {n, n});
    const std::int64_t start_ns = now_ns();
    gemm(1, a, b, 0, c, Stream(pool));
    best = std::max(best, 2.0 * static_cast<double>(n * n * n) / (ms_since(start_ns) * 1e-3));
  }
  return best;
}

}  // namespace hgt
