#pragma once

// What kernels share: elements of the compute types, and sums and maxima over threads.

#include "hgtrain/base/dtype.h"
#include "hgtrain/device/cuda_launch.h"

#include "launchers.h"

namespace hgt::cuda {

// ---- Elements are floats in registers, rounded to nearest even once, when they are stored. Memory
// is read and written 16 bytes at a time if it is aligned.

/// Calls fn with a value of the type that an element has in memory, so that a kernel is compiled
/// for each type.
template <class Fn>
void visit_element(DType type, const Fn& fn) {
  if (type == DType::kBF16) return fn(__nv_bfloat16());
  if (type == DType::kF16) return fn(__half());
  if (type == DType::kF32) return fn(float());
  throw Error(ErrorKind::kInternal, "a kernel takes fp32, bf16 or fp16");
}

__device__ inline float to_float(float x) {
  return x;
}
__device__ inline float to_float(__half x) {
  return __half2float(x);
}
__device__ inline float to_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
__device__ inline void store(float* to, float x) {
  *to = x;
}
__device__ inline void store(__half* to, float x) {
  *to = __float2half_rn(x);
}
__device__ inline void store(__nv_bfloat16* to, float x) {
  *to = __float2bfloat16_rn(x);
}

/// The number of elements in a vector.
template <class T>
inline constexpr int kVector = 16 / static_cast<int>(sizeof(T));

/// 16 bytes of elements, loaded and stored by one instruction.
template <class T>
struct alignas(16) Vector {
  T elements[kVector<T>];

  __device__ float operator[](int i) const {
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      // A bf16 is the high half of a float. This is one instruction; the conversion would be two.
      unsigned pair = 0;
      memcpy(&pair, elements + i / 2 * 2, sizeof pair);
      return __uint_as_float(i % 2 == 0 ? pair << 16 : pair & 0xffff0000U);
    } else {
      return to_float(elements[i]);
    }
  }
  __device__ void set(int i, float x) { store(elements + i, x); }
};

/// A vector as four words. It is loaded and stored as these, because nvcc may copy the elements of
/// a struct one by one.
template <class T>
__device__ Vector<T> as_vector(const uint4& words) {
  Vector<T> out;
  reinterpret_cast<uint4&>(out) = words;
  return out;
}

/// The vector at an aligned place.
template <class T>
__device__ Vector<T> load_vector(const T* from) {
  return as_vector<T>(*reinterpret_cast<const uint4*>(from));
}
template <class T>
__device__ void store_vector(T* to, const Vector<T>& x) {
  __stwb(reinterpret_cast<uint4*>(to), reinterpret_cast<const uint4&>(x));
}
/// The same for what is used only once more, or not soon: it leaves the L2 cache first.
template <class T>
__device__ Vector<T> load_last(const T* from) {
  return as_vector<T>(__ldcs(reinterpret_cast<const uint4*>(from)));
}
template <class T>
__device__ void store_last(T* to, const Vector<T>& x) {
  __stcs(reinterpret_cast<uint4*>(to), reinterpret_cast<const uint4&>(x));
}

template <class T>
__device__ bool is_whole_vector(const T* at, std::int64_t count) {
  return count >= kVector<T> && reinterpret_cast<std::uintptr_t>(at) % sizeof(Vector<T>) == 0;
}

/// Whether a whole vector begins at each place, of which `count` elements exist.
template <class... T>
__device__ bool are_whole_vectors(std::int64_t count, const T*... at) {
  return (is_whole_vector(at, count) && ...);
}

/// The first `count` elements at `from`, at most a vector of them, then zeros.
template <class T>
__device__ Vector<T> read(const T* from, std::int64_t count) {
  if (is_whole_vector(from, count)) return load_vector(from);
  Vector<T> out;
#pragma unroll
  for (int i = 0; i < kVector<T>; ++i) {
    out.set(i, 0);
    if (i < count) out.elements[i] = from[i];
  }
  return out;
}

/// Writes the first `count` elements of the vector.
template <class T>
__device__ void write(T* to, const Vector<T>& x, std::int64_t count) {
  if (is_whole_vector(to, count)) {
    store_vector(to, x);
    return;
  }
#pragma unroll
  for (int i = 0; i < kVector<T>; ++i)
    if (i < count) to[i] = x.elements[i];
}

/// read() and write() for rows. If they are whole, they consist of aligned vectors, so that each
/// vector is there or not. With code for parts of vectors, nvcc takes each vector apart before it
/// loads the next one: on an H200, norms then reached 33 to 58 % of the rate of copies.
template <bool kWhole, class T>
__device__ Vector<T> read_of_row(const T* from, std::int64_t count) {
  if constexpr (!kWhole) return read(from, count);
  uint4 words{};
  if (count > 0) words = *reinterpret_cast<const uint4*>(from);
  return as_vector<T>(words);
}
template <bool kWhole, class T>
__device__ void write_of_row(T* to, const Vector<T>& x, std::int64_t count) {
  if constexpr (!kWhole) return write(to, x, count);
  if (count > 0) store_vector(to, x);
}

/// Calls fn with whether a thread's vectors are whole, as a type, so that the code for whole ones
/// is apart.
template <class Fn>
__device__ void visit_whole(bool whole, const Fn& fn) {
  if (whole)
    fn(std::true_type());
  else
    fn(std::false_type());
}

/// Computes `count` elements, at most a vector of them, at each place of `to` from those at each
/// place of `from`, by fn(inputs, outputs) of floats. A place of both may be the same.
template <class T, int kIn, int kOut, class Fn>
__device__ void map_vector(const T* const (&from)[kIn], T* const (&to)[kOut], std::int64_t count,
                           const Fn& fn) {
  bool whole = true;
  for (const T* at : from) whole = whole && is_whole_vector(at, count);
  for (const T* at : to) whole = whole && is_whole_vector(at, count);
  float in[kIn], out[kOut];
  if (whole) {
    Vector<T> read[kIn], written[kOut];
#pragma unroll
    for (int k = 0; k < kIn; ++k) read[k] = load_vector(from[k]);
#pragma unroll
    for (int i = 0; i < kVector<T>; ++i) {
#pragma unroll
      for (int k = 0; k < kIn; ++k) in[k] = read[k][i];
      fn(in, out);
#pragma unroll
      for (int k = 0; k < kOut; ++k) written[k].set(i, out[k]);
    }
#pragma unroll
    for (int k = 0; k < kOut; ++k) store_vector(to[k], written[k]);
    return;
  }
#pragma unroll 1
  for (int i = 0; i < kVector<T> && i < count; ++i) {
#pragma unroll
    for (int k = 0; k < kIn; ++k) in[k] = to_float(from[k][i]);
    fn(in, out);
#pragma unroll
    for (int k = 0; k < kOut; ++k) store(to[k] + i, out[k]);
  }
}

/// Threads of a block, in kernels that say no other number. A kernel has the number that it is
/// launched with, or the most, in its __launch_bounds__.
inline constexpr unsigned kBlockThreads = 256;

/// For kernels over flat memory with some elements per thread: the index of the thread's first.
__device__ inline std::int64_t first_of_thread(int elements) {
  return (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * elements;
}
inline LaunchShape elements_shape(std::int64_t count, int elements) {
  return {{blocks_for(count, kBlockThreads, elements)}, {kBlockThreads}};
}

/// Likewise, with one vector per thread.
template <class T>
__device__ std::int64_t first_of_thread() {
  return first_of_thread(kVector<T>);
}
template <class T>
LaunchShape vectors_shape(std::int64_t count) {
  return elements_shape(count, kVector<T>);
}

/// The number of elements in a vector of the narrower type.
template <class A, class B>
inline constexpr int kLongerVector = kVector<A> > kVector<B> ? kVector<A> : kVector<B>;

/// N elements of flat memory of any type, in registers: whole vectors of each type they are read or
/// written as. `first` is the index of the first one; `count` elements exist from there on.
template <int N>
struct Floats {
  float x[N] = {};

  template <class T>
  __device__ void read(const void* flat, std::int64_t first, std::int64_t count) {
#pragma unroll
    for (int i = 0; i < N; i += kVector<T>) {
      const Vector<T> part = hgt::cuda::read(static_cast<const T*>(flat) + first + i, count - i);
#pragma unroll
      for (int j = 0; j < kVector<T>; ++j) x[i + j] = part[j];
    }
  }
  /// Rounds to nearest.
  template <class T>
  __device__ void write(void* flat, std::int64_t first, std::int64_t count) const {
#pragma unroll
    for (int i = 0; i < N; i += kVector<T>) {
      Vector<T> part;
#pragma unroll
      for (int j = 0; j < kVector<T>; ++j) part.set(j, x[i + j]);
      hgt::cuda::write(static_cast<T*>(flat) + first + i, part, count - i);
    }
  }
};

// ---- Sums and maxima over the threads of a warp or a block. The order of a sum follows from the
// block's size alone.

inline constexpr unsigned kWarp = 32;

template <class T>
__device__ T greater(T a, T b) {
  return b > a ? b : a;
}
/// The other one if one is NaN.
__device__ inline float greater(float a, float b) {
  return fmaxf(a, b);
}

template <class T>
__device__ T warp_max(T value) {
  for (unsigned offset = kWarp / 2; offset > 0; offset /= 2)
    value = greater(value, __shfl_xor_sync(~0u, value, offset));
  return value;
}

template <class T>
__device__ T warp_sum(T value) {
  for (unsigned offset = kWarp / 2; offset > 0; offset /= 2)
    value += __shfl_xor_sync(~0u, value, offset);
  return value;
}

/// Each value's sum over the block, returned to every thread. Blocks are whole warps; all threads
/// must call it.
template <int kCount, class T>
__device__ void block_sums(T (&values)[kCount]) {
  __shared__ T warps[kCount][kWarp];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  for (T& value : values) value = warp_sum(value);
  __syncthreads();  // all have read the previous call's sums
  if (lane == 0)
    for (int i = 0; i < kCount; ++i) warps[i][warp] = values[i];
  __syncthreads();
  for (int i = 0; i < kCount; ++i)
    values[i] = warp_sum(lane < blockDim.x / kWarp ? warps[i][lane] : T{});
}

template <class T>
__device__ T block_sum(T value) {
  T values[] = {value};
  block_sums(values);
  return values[0];
}

/// The largest value of the block, likewise returned to every thread.
template <class T>
__device__ T block_max(T value) {
  __shared__ T warps[kWarp];
  value = warp_max(value);
  __syncthreads();
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  return warp_max(warps[threadIdx.x % kWarp < blockDim.x / kWarp ? threadIdx.x % kWarp : 0]);
}

}  // namespace hgt::cuda
