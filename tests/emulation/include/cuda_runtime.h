#pragma once

// CUDA's C++ for the host's compiler: what kernels are written in. Their sources are compiled as
// they are; tests/emulation/execution.h says how they run.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>

#include "../execution.h"
#include "../order.h"
#include "cuda_runtime_api.h"
#include "cuda_vectors.h"

#define __global__
#define __device__
#define __host__
#define __shared__ thread_local
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

// ---- the host's side -----------------------------------------------------------------------

namespace hgt::emulation {
/// Bytes of dynamic shared memory a kernel may be given; each kernel is a type of its own.
std::size_t& max_shared_bytes(const void* kernel);
}  // namespace hgt::emulation

template <class Args>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Args), cudaFuncAttribute, int bytes) {
  hgt::emulation::max_shared_bytes(reinterpret_cast<const void*>(kernel)) =
      static_cast<std::size_t>(bytes);
  return cudaSuccess;
}

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
};

template <class Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Args), Args args) {
  hgt::emulation::load(reinterpret_cast<const void*>(kernel));
  const std::size_t most = hgt::emulation::max_shared_bytes(reinterpret_cast<const void*>(kernel));
  hgt::emulation::submit(config->stream, [=, config = *config] {
    hgt::emulation::run_grid(config.gridDim, config.blockDim, config.dynamicSmemBytes, most,
                             [&] { kernel(args); });
  });
  return cudaSuccess;
}

// ---- barriers, votes, shuffles -------------------------------------------------------------

namespace hgt::emulation {

using Where = std::source_location;

template <class T>
T from_bits(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// What lane `source` of the mask brings to this place.
template <class T>
T value_of_lane(unsigned mask, T value, unsigned source, const Where& where) {
  static_assert(sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return from_bits<T>(wait_for_warp(mask, bits, where)[source]);
}

/// Bit i: the predicate of lane i holds.
inline unsigned ballot(unsigned mask, bool predicate, const Where& where) {
  const Lanes& lanes = wait_for_warp(mask, predicate, where);
  unsigned out = 0;
  for (unsigned i = 0; i < kWarpLanes; ++i) out |= (lanes[i] == 1 ? 1u : 0u) << i;
  return out & mask;
}

}  // namespace hgt::emulation

#define HGT_WHERE const std::source_location& where = std::source_location::current()

inline void __syncthreads(HGT_WHERE) {
  hgt::emulation::wait_for_block(false, where);
}
inline int __syncthreads_or(int predicate, HGT_WHERE) {
  return hgt::emulation::wait_for_block(predicate != 0, where).yes > 0;
}
inline int __syncthreads_and(int predicate, HGT_WHERE) {
  const auto votes = hgt::emulation::wait_for_block(predicate != 0, where);
  return votes.yes == votes.threads;
}
inline int __syncthreads_count(int predicate, HGT_WHERE) {
  return hgt::emulation::wait_for_block(predicate != 0, where).yes;
}
inline void __syncwarp(unsigned mask = ~0u, HGT_WHERE) {
  hgt::emulation::wait_for_warp(mask, 0, where);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, HGT_WHERE) {
  return hgt::emulation::ballot(mask, predicate != 0, where);
}
inline int __any_sync(unsigned mask, int predicate, HGT_WHERE) {
  return hgt::emulation::ballot(mask, predicate != 0, where) != 0;
}
inline int __all_sync(unsigned mask, int predicate, HGT_WHERE) {
  return hgt::emulation::ballot(mask, predicate == 0, where) == 0;
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize, HGT_WHERE) {
  const unsigned segment = hgt::emulation::lane() & ~(static_cast<unsigned>(width) - 1);
  const unsigned within = static_cast<unsigned>(source) & (static_cast<unsigned>(width) - 1);
  return hgt::emulation::value_of_lane(mask, value, segment + within, where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = warpSize, HGT_WHERE) {
  const unsigned self = hgt::emulation::lane(), within = self % static_cast<unsigned>(width);
  return hgt::emulation::value_of_lane(mask, value, within < distance ? self : self - distance,
                                       where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = warpSize, HGT_WHERE) {
  const unsigned self = hgt::emulation::lane(), size = static_cast<unsigned>(width);
  return hgt::emulation::value_of_lane(
      mask, value, self % size + distance < size ? self + distance : self, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int flips, int width = warpSize, HGT_WHERE) {
  const unsigned self = hgt::emulation::lane(), size = static_cast<unsigned>(width);
  const unsigned source = self ^ static_cast<unsigned>(flips);
  return hgt::emulation::value_of_lane(mask, value,
                                       source < self / size * size + size ? source : self, where);
}

// ---- atomics: only one thread runs at a time -----------------------------------------------

template <class T>
T atomicExch(T* to, T value) {
  const T old = *to;
  *to = value;
  return old;
}
template <class T>
T atomicAdd(T* to, T value) {
  return atomicExch(to, static_cast<T>(*to + value));
}
template <class T>
T atomicMax(T* to, T value) {
  return atomicExch(to, *to < value ? value : *to);
}
template <class T>
T atomicMin(T* to, T value) {
  return atomicExch(to, value < *to ? value : *to);
}
template <class T>
T atomicOr(T* to, T value) {
  return atomicExch(to, static_cast<T>(*to | value));
}
template <class T>
T atomicCAS(T* to, T expected, T value) {
  return atomicExch(to, *to == expected ? value : *to);
}
inline void __threadfence() {}
inline void __threadfence_block() {}

// ---- memory and arithmetic -----------------------------------------------------------------

template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcs(const T* from) {
  return *from;
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}
template <class T>
void __stcs(T* to, T value) {
  *to = value;
}
template <class T>
void __stcg(T* to, T value) {
  *to = value;
}
template <class T>
void __stwb(T* to, T value) {
  *to = value;
}

inline float __expf(float x) {
  return expf(x);
}
inline float __logf(float x) {
  return logf(x);
}
inline float __fdividef(float x, float y) {
  return x / y;
}
inline float rsqrtf(float x) {
  return 1.0f / sqrtf(x);
}
inline float normcdff(float x) {
  return static_cast<float>(0.5 * std::erfc(-0.70710678118654752 * static_cast<double>(x)));
}
inline float __fmul_rn(float x, float y) {
  return x * y;
}
inline float __fadd_rn(float x, float y) {
  return x + y;
}
inline float __fdiv_rn(float x, float y) {
  return x / y;
}
inline float __fsqrt_rn(float x) {
  return sqrtf(x);
}
inline int __ffs(int bits) {
  return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1;
}
inline int __popc(unsigned bits) {
  return std::popcount(bits);
}
inline int __clz(int bits) {
  return std::countl_zero(static_cast<unsigned>(bits));
}
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>(std::uint64_t{x} * y >> 32);
}
inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}
inline int __float_as_int(float x) {
  return std::bit_cast<int>(x);
}
inline float __int_as_float(int x) {
  return std::bit_cast<float>(x);
}
inline float __saturatef(float x) {
  return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f;
}

#define HGT_MIN_MAX(T)     \
  inline T min(T a, T b) { \
    return b < a ? b : a;  \
  }                        \
  inline T max(T a, T b) { \
    return a < b ? b : a;  \
  }
HGT_MIN_MAX(int)
HGT_MIN_MAX(unsigned)
HGT_MIN_MAX(long)
HGT_MIN_MAX(unsigned long)
HGT_MIN_MAX(long long)
HGT_MIN_MAX(unsigned long long)
HGT_MIN_MAX(float)
HGT_MIN_MAX(double)
#undef HGT_MIN_MAX
