#pragma once

#include "hgtrain/device/stream.h"
#include "hgtrain/ops/cuda_ops_table.h"
#include "hgtrain/ops/dropout.h"
#include "hgtrain/ops/run_cuda.h"
#include "hgtrain/tensor/tensor.h"

/// The worker's way into the CUDA module's ops.
namespace hgt {

/// An optional operand's elements, null where there is none.
inline float* data_or_null(const Tensor& x) {
  return x ? x.data<float>() : nullptr;
}

template <class T = const float>
HeadRows<T> head_rows(const Tensor& x) {
  return {x.data<float>(), x.stride(0), x.stride(1)};
}

template <class T = const float>
Heads<T> heads(const Tensor& x) {
  return {x.data<float>(), x.stride(0), x.stride(1), x.stride(2)};
}

inline DropoutArgs dropout_args(const Dropout& dropout) {
  return {dropout.probability, dropout.seed, static_cast<std::uint64_t>(dropout.step),
          static_cast<std::uint64_t>(dropout.first_sample), dropout.site};
}

}  // namespace hgt
