#include "hgtrain/base/element.h"

#include "kernels.h"

namespace hgt::cpu {
namespace {

template <class T>
void rotate(T* first, T* second, const float* cos, const float* sin, float direction,
            std::int64_t half) {
#pragma omp simd
  for (std::int64_t i = 0; i < half; ++i) {
    const float a = first[i], b = second[i], turn = direction * sin[i];
    first[i] = a * cos[i] - b * turn;
    second[i] = b * cos[i] + a * turn;
  }
}

}  // namespace

void rope(const Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& position_ids,
          float direction, ThreadPool& pool) {
  const std::int32_t* const places = data_or_null<std::int32_t>(position_ids);
  const std::int64_t length = x.size(1), heads = x.size(2), half = x.size(3) / 2;
  const float* const cos_TR = cos.data<float>();
  const float* const sin_TR = sin.data<float>();
  visit_element(x.dtype(), [&]<class T>(T) {
    T* const x_BTHD = x.data<T>();
    pool.parallel_for(x.size(0) * length, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t n = begin; n < end; ++n) {
        const std::int64_t t = n % length;
        const std::int64_t place = places ? places[n] : t;
        T* const row = x_BTHD + n / length * x.stride(0) + t * x.stride(1);
        for (std::int64_t h = 0; h < heads; ++h) {
          T* const head = row + h * x.stride(2);
          rotate(head, head + half, cos_TR + place * half, sin_TR + place * half, direction, half);
        }
      }
    });
  });
}

}  // namespace hgt::cpu
