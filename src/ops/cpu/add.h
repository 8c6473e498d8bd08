#pragma once

#include <cstdint>

namespace hgt::cpu {

/// y = a + b, rounded to T; y may be a or b.
template <class T>
void add(const T* a, const T* b, std::int64_t count, T* y) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
}

}  // namespace hgt::cpu
