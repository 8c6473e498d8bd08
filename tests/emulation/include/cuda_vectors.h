#pragma once

// CUDA's short vectors, aligned as there: what is read through one must be.

#define HGT_VECTORS(T, name)                                        \
  struct alignas(2 * sizeof(T)) name##2 {                           \
    T x, y;                                                         \
  };                                                                \
  struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name##4 { \
    T x, y, z, w;                                                   \
  };                                                                \
  constexpr name##2 make_##name##2(T x, T y) {                      \
    return {x, y};                                                  \
  }                                                                 \
  constexpr name##4 make_##name##4(T x, T y, T z, T w) {            \
    return {x, y, z, w};                                            \
  }

HGT_VECTORS(unsigned char, uchar)
HGT_VECTORS(unsigned short, ushort)
HGT_VECTORS(int, int)
HGT_VECTORS(unsigned, uint)
HGT_VECTORS(float, float)
HGT_VECTORS(double, double)
HGT_VECTORS(long long, longlong)
HGT_VECTORS(unsigned long long, ulonglong)
#undef HGT_VECTORS
