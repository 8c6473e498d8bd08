#pragma once

#include "hgtrain/base/half.h"
#include "hgtrain/parallel/range.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// out[i] = values[i] for i in the range, rounded to out's type: bf16 or fp16. Nothing where out is
/// none.
inline void round_chunk(const float* values, Range range, const Tensor& out) {
  const auto round = [&]<class T>(T* to) {
    for (std::int64_t i = range.begin; i < range.end; ++i) to[i] = values[i];
  };
  if (!out) return;
  if (out.dtype() == DType::kBF16)
    round(out.data<BFloat16>());
  else
    round(out.data<Half>());
}

}  // namespace hgt
