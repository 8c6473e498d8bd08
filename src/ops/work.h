#pragma once

#include "hgtrain/base/trace.h"
#include "hgtrain/tensor/tensor.h"

/// The spans of ops for a trace and a profile: a span begins once the operands are checked.
namespace hgt {

/// The span of an op that passes over these operands once; one read and written is given twice.
template <class... Tensors>
Work traffic(const Tensors&... operands) {
  const auto bytes = [](const Tensor& x) {
    return x ? static_cast<double>(x.numel()) * static_cast<double>(size_of(x.dtype())) : 0.0;
  };
  return {.bytes = (bytes(operands) + ...)};
}

/// The span of the product of a [M, K] and b [K, N].
inline Work product_work(const Tensor& a, const Tensor& b) {
  return {.flops = 2.0 * static_cast<double>(a.numel()) * static_cast<double>(b.size(1))};
}

}  // namespace hgt
