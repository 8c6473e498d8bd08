#pragma once

#include "hgtrain/base/half.h"

#include "cuda_vectors.h"
#include "narrow_float.h"

using __nv_bfloat16 = hgt::emulation::NarrowFloat<hgt::BFloat16>;
using __nv_bfloat162 = hgt::emulation::Pair<__nv_bfloat16>;

HGT_NARROW_CONVERSIONS(__nv_bfloat16, __nv_bfloat162, bfloat16)

inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__nv_bfloat16(x), __nv_bfloat16(y)};
}
inline __nv_bfloat162 __float22bfloat162_rn(float2 x) {
  return {__nv_bfloat16(x.x), __nv_bfloat16(x.y)};
}
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  __nv_bfloat16 out;
  out.bits = bits;
  return out;
}
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) {
  return x.bits;
}
