#pragma once

#include <algorithm>
#include <cstdint>

#include "hgtrain/base/fetch.h"
#include "hgtrain/base/kernel_sizes.h"
#include "hgtrain/device/thread_pool.h"

namespace hgt::cpu {

/// y = a + b, rounded to T; y may be a or b.
template <class T>
void add(const T* a, const T* b, std::int64_t count, T* y) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
}

/// Sums over rows, computed along with other work on the rows. The rows are cut into chunks whose
/// number follows from the number of rows alone, each chunk has sums of its own, and the chunks'
/// sums are added in order. So the result has the same bits for any number of threads.
class ColumnPartials {
 public:
  /// `width` sums over `rows` rows. Their memory is thread 0's scratch, reserved until add_to.
  ColumnPartials(ThreadPool& pool, std::int64_t rows, std::int64_t width)
      : pool_(pool), rows_(rows), width_(width), partials_(pool.scratch(0, kNormChunks * width)) {}

  /// Calls fn(row, sums) for every row; fn adds to sums[width].
  template <class Fn>
  void for_each_row(const Fn& fn) {
    pool_.parallel_for(kNormChunks, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t chunk = begin; chunk < end; ++chunk) {
        float* const sums = partials_ + chunk * width_;
        std::fill(sums, sums + width_, 0.0f);
        const std::int64_t last = rows_ * (chunk + 1) / kNormChunks;
        for (std::int64_t row = rows_ * chunk / kNormChunks; row < last; ++row) fn(row, sums);
      }
    });
  }

  /// out[i] += sum `first + i`, for i < count.
  void add_to(float* out, std::int64_t first, std::int64_t count) const {
    for (std::int64_t chunk = 0; chunk < kNormChunks; ++chunk) {
      const float* const sums = partials_ + chunk * width_ + first;
      for (std::int64_t i = 0; i < count; ++i) out[i] += sums[i];
    }
  }

 private:
  ThreadPool& pool_;
  std::int64_t rows_, width_;
  float* partials_;
};

}  // namespace hgt::cpu
