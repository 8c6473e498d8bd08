#pragma once

#include "hgtrain/base/element.h"
#include "hgtrain/parallel/range.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// out[i] = values[i] for i in the range, rounded to out's type. Does nothing if out is no tensor.
inline void round_chunk(const Tensor& values, Range range, const Tensor& out) {
  if (!out) return;
  visit_element(values.dtype(), [&]<class From>(From) {
    const From* const from = values.data<From>();
    visit_element(out.dtype(), [&]<class To>(To) {
      To* const to = out.data<To>();
      for (std::int64_t i = range.begin; i < range.end; ++i) to[i] = static_cast<float>(from[i]);
    });
  });
}

}  // namespace hgt
