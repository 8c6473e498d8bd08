#include "matrix_rate.h"

#include <algorithm>

#include "hgtrain/base/clock.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/ops/gemm.h"

namespace hgt {

double measure_matrix_rate(ThreadPool& pool) {
  constexpr std::int64_t kSize = 768;
  constexpr int kRepeats = 6;  // at least: the first one sets the library up
  constexpr double kLongEnoughMs = 200;
  const Buffer memory("matrix rate", 3 * kSize * kSize * 4);
  float* data = memory.as<float>().data();
  std::fill(data, data + 2 * kSize * kSize, 0.5f);
  const Tensor a(data, {kSize, kSize}), b(data + kSize * kSize, {kSize, kSize}),
      c(data + 2 * kSize * kSize, {kSize, kSize});
  double best_ms = 1e300;
  const std::int64_t begin_ns = now_ns();
  for (int i = 0; i < kRepeats || ms_since(begin_ns) < kLongEnoughMs; ++i) {
    const std::int64_t start_ns = now_ns();
    gemm(1, a, b, 0, c, Stream(pool));
    best_ms = std::min(best_ms, ms_since(start_ns));
  }
  return 2.0 * kSize * kSize * kSize / (best_ms * 1e-3);
}

}  // namespace hgt
