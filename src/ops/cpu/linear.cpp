#include "hgtrain/base/element.h"

#include "kernels.h"
#include "rows.h"

namespace hgt::cpu {

void add_bias(const Tensor& y, const Tensor& bias, ThreadPool& pool) {
  const std::int64_t columns = y.size(1), stride = y.stride(0);
  visit_element(y.dtype(), [&]<class T>(T) {
    T* const y_NO = y.data<T>();
    const T* const b = bias.data<T>();
    pool.parallel_for(y.size(0), [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t n = begin; n < end; ++n)
        add(y_NO + n * stride, b, columns, y_NO + n * stride);
    });
  });
}

void add_column_sums(const Tensor& dy, const Tensor& dbias, ThreadPool& pool) {
  const std::int64_t rows = dy.size(0), stride = dy.stride(0);
  float* const sums = dbias.data<float>();
  visit_element(dy.dtype(), [&]<class T>(T) {
    const T* const dy_NO = dy.data<T>();
    // By columns, so that each sum has one order for any number of threads.
    pool.parallel_for(dy.size(1), [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t n = 0; n < rows; ++n) {
        const T* const row = dy_NO + n * stride;
#pragma omp simd
        for (std::int64_t o = begin; o < end; ++o) sums[o] += row[o];
      }
    });
  });
}

}  // namespace hgt::cpu
