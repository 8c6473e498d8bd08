#pragma once

#include "hgtrain/device/stream.h"
#include "hgtrain/ops/cuda_ops_table.h"
#include "hgtrain/ops/dropout.h"
#include "hgtrain/ops/run_cuda.h"
#include "hgtrain/tensor/tensor.h"

/// How the worker calls the CUDA module's ops.
namespace hgt {

inline float* floats_or_null(const Tensor& x) {
  return x ? x.data<float>() : nullptr;
}

inline const std::int32_t* ids_or_null(const Tensor& x) {
  return x ? x.data<std::int32_t>() : nullptr;
}

template <class T = const void>
HeadRows<T> head_rows(const Tensor& x) {
  return {x.raw(), x.stride(0), x.stride(1)};
}

template <class T = const void>
Heads<T> heads(const Tensor& x) {
  return {x.raw(), x.stride(0), x.stride(1), x.stride(2)};
}

inline DropoutArgs dropout_args(const Dropout& dropout) {
  return {dropout.probability, dropout.seed, dropout.samples, dropout.site};
}

}  // namespace hgt
