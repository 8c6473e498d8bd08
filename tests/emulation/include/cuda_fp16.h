#pragma once

#include "hgtrain/base/half.h"

#include "cuda_vectors.h"
#include "narrow_float.h"

using __half = hgt::emulation::NarrowFloat<hgt::Half>;
using __half2 = hgt::emulation::Pair<__half>;
using half = __half;
using half2 = __half2;

HGT_NARROW_CONVERSIONS(__half, __half2, half)

inline __half2 __floats2half2_rn(float x, float y) {
  return {__half(x), __half(y)};
}
inline __half2 __float22half2_rn(float2 x) {
  return {__half(x.x), __half(x.y)};
}
inline __half __ushort_as_half(unsigned short bits) {
  __half out;
  out.bits = bits;
  return out;
}
inline unsigned short __half_as_ushort(__half x) {
  return x.bits;
}
