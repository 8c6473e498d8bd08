#pragma once

#include <cstdint>

namespace hgt::emulation {

/// A 16-bit float as CUDA has it: uninitialised if it is not given a value, computed with in
/// fp32 and rounded to nearest even. `Storage` knows the format.
template <class Storage>
struct NarrowFloat {
  std::uint16_t bits;

  NarrowFloat() = default;
  explicit NarrowFloat(float x) : bits(Storage(x).bits) {}
  NarrowFloat& operator=(float x) { return *this = NarrowFloat(x); }
  operator float() const {
    Storage stored;
    stored.bits = bits;
    return stored;
  }
};

/// Two of them in a word.
template <class T>
struct alignas(4) Pair {
  T x, y;
};

}  // namespace hgt::emulation

// A conversion of one number, and of two: their names differ in the two headers.
#define HGT_NARROW_CONVERSIONS(T, T2, name) \
  inline float __##name##2float(T x) {      \
    return x;                               \
  }                                         \
  inline T __float2##name(float x) {        \
    return T(x);                            \
  }                                         \
  inline T __float2##name##_rn(float x) {   \
    return T(x);                            \
  }                                         \
  inline float2 __##name##22float2(T2 x) {  \
    return {x.x, x.y};                      \
  }                                         \
  inline float __low2float(T2 x) {          \
    return x.x;                             \
  }                                         \
  inline float __high2float(T2 x) {         \
    return x.y;                             \
  }
