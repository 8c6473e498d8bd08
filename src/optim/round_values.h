#pragma once

#include <cstdint>

#include "hgtrain/base/element.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// out[i] = values[i], rounded to out's type. Does nothing if out is no tensor.
inline void round_values(const Tensor& values, const Tensor& out) {
  if (!out) return;
  visit_element(values.dtype(), [&]<class From>(From) {
    const From* const from = values.data<From>();
    visit_element(out.dtype(), [&]<class To>(To) {
      To* const to = out.data<To>();
      const std::int64_t count = out.numel();
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
    });
  });
}

}  // namespace hgt
