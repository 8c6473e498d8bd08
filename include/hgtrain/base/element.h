#pragma once

#include "hgtrain/base/dtype.h"
#include "hgtrain/base/half.h"

namespace hgt {

/// Calls fn with a value of the type that an element of a compute dtype has in memory, so that a
/// kernel is compiled for each: float, BFloat16 or Half.
template <class Fn>
void visit_element(DType dtype, const Fn& fn) {
  switch (dtype) {
    case DType::kBF16:
      return fn(BFloat16());
    case DType::kF16:
      return fn(Half());
    default:
      return fn(float());
  }
}

}  // namespace hgt
