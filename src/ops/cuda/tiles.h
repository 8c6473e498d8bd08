#pragma once

// Products of tiles in fp32, for attention: a block of 256 threads, 16 x 16, computes 64 x 64
// elements, 4 x 4 per thread, from strips of the operands in shared memory.

#include "kernel.h"

namespace hgt::cuda {

inline constexpr int kTile = 64;
inline constexpr int kTileThreads = 256;
inline constexpr int kDepth = 32;  ///< dimensions of both operands in shared memory at once
inline constexpr int kGap = 4;     ///< floats after a row, so that rows start in different banks

/// Up to 64 rows of a matrix of fp32, bf16 or fp16 in global memory. Missing rows and columns count
/// as zeros.
struct TileRows {
  const void* data;
  DType type;
  std::int64_t stride;
  int rows, width;
};

/// The memory that a block shares.
struct alignas(16) TileMemory {
  float strips[2 * kTile * (kDepth + kGap)];
  float weights[kTile * (kTile + kGap)];
};
static_assert(kTile * (kTile + kGap) <= 2 * kTile * (kDepth + kGap));

/// The thread's position in the 16 x 16 threads.
struct TileThread {
  int x = static_cast<int>(threadIdx.x % 16), y = static_cast<int>(threadIdx.x / 16);
};

template <int kColumns, class T>
__device__ void copy_strip(const TileRows& from, int first, float* strip) {
  constexpr int kVectors = kColumns / kVector<T>;  // in a row
  for (int at = static_cast<int>(threadIdx.x); at < kTile * kVectors; at += kTileThreads) {
    const int row = at / kVectors, c = at % kVectors * kVector<T>;
    const Vector<T> x = read(static_cast<const T*>(from.data) + row * from.stride + first + c,
                             row < from.rows ? from.width - first - c : 0);
    auto* const to = reinterpret_cast<float4*>(strip + row * (kColumns + kGap) + c);
#pragma unroll
    for (int i = 0; i < kVector<T>; i += 4)
      to[i / 4] = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
  }
}

/// Columns [first, first + kColumns) of the rows, as floats.
template <int kColumns>
__device__ void copy_strip(const TileRows& from, int first, float* strip) {
  if (from.type == DType::kBF16)
    copy_strip<kColumns, __nv_bfloat16>(from, first, strip);
  else if (from.type == DType::kF16)
    copy_strip<kColumns, __half>(from, first, strip);
  else
    copy_strip<kColumns, float>(from, first, strip);
}

__device__ inline float4 four_at(const float* at) {
  return *reinterpret_cast<const float4*>(at);
}

/// out = x y^T; the thread has rows 4 thread.y + i of x and rows thread.x + 16 j of y.
__device__ inline void multiply_rows(const TileRows& x, const TileRows& y, TileMemory& memory,
                                     float (&out)[4][4]) {
  constexpr int kPitch = kDepth + kGap;
  const TileThread thread;
  float *const xs = memory.strips, *const ys = memory.strips + kTile * kPitch;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) out[i][j] = 0;
  for (int first = 0; first < x.width; first += kDepth) {
    __syncthreads();  // the previous strips have been read
    copy_strip<kDepth>(x, first, xs);
    copy_strip<kDepth>(y, first, ys);
    __syncthreads();
#pragma unroll 2
    for (int d = 0; d < kDepth; d += 4) {
      float4 a[4], b[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        a[i] = four_at(xs + (4 * thread.y + i) * kPitch + d);
        b[i] = four_at(ys + (thread.x + 16 * i) * kPitch + d);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          out[i][j] += a[i].x * b[j].x + a[i].y * b[j].y + a[i].z * b[j].z + a[i].w * b[j].w;
    }
  }
}

template <class T>
struct alignas(4 * sizeof(T)) Four {
  T elements[4];
};

/// 4 rows of a result whose columns come in chunks of 64: the thread has rows 4 thread.y + i and
/// columns 64 chunk + 4 thread.x + j.
template <int kChunks>
struct TileSums {
  float values[kChunks][4][4] = {};

  __device__ void scale_row(int i, float factor) {
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk)
#pragma unroll
      for (int j = 0; j < 4; ++j) values[chunk][i][j] *= factor;
  }

  /// Adds memory.weights [64, 64] times the rows of y.
  __device__ void add(const TileRows& y, TileMemory& memory) {
    constexpr int kPitch = kTile + kGap;
    const TileThread thread;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      if (chunk * kTile >= y.width) continue;
      __syncthreads();  // the previous strip is read, the weights are written
      copy_strip<kTile>(y, chunk * kTile, memory.strips);
      __syncthreads();
#pragma unroll 2
      for (int k = 0; k < kTile; k += 4) {
        float4 a[4], b[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          a[i] = four_at(memory.weights + (4 * thread.y + i) * kPitch + k);
          b[i] = four_at(memory.strips + (k + i) * kPitch + 4 * thread.x);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float* const out = values[chunk][i];
          out[0] += a[i].x * b[0].x + a[i].y * b[1].x + a[i].z * b[2].x + a[i].w * b[3].x;
          out[1] += a[i].x * b[0].y + a[i].y * b[1].y + a[i].z * b[2].y + a[i].w * b[3].y;
          out[2] += a[i].x * b[0].z + a[i].y * b[1].z + a[i].z * b[2].z + a[i].w * b[3].z;
          out[3] += a[i].x * b[0].w + a[i].y * b[1].w + a[i].z * b[2].w + a[i].w * b[3].w;
        }
      }
    }
  }

  /// Writes the first `rows` rows of `width` elements.
  template <class T>
  __device__ void write_as(T* to, std::int64_t stride, int rows, int width) const {
    const TileThread thread;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 4 * thread.y + i, column = kTile * chunk + 4 * thread.x;
        if (row >= rows) continue;
        T* const at = to + row * stride + column;
        Four<T> four;
#pragma unroll
        for (int j = 0; j < 4; ++j) store(four.elements + j, values[chunk][i][j]);
        if (column + 4 <= width && reinterpret_cast<std::uintptr_t>(at) % sizeof(four) == 0) {
          *reinterpret_cast<Four<T>*>(at) = four;
          continue;
        }
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (column + j < width) at[j] = four.elements[j];
      }
  }
  __device__ void write(void* to, DType type, std::int64_t stride, int rows, int width) const {
    if (type == DType::kBF16)
      write_as(static_cast<__nv_bfloat16*>(to), stride, rows, width);
    else if (type == DType::kF16)
      write_as(static_cast<__half*>(to), stride, rows, width);
    else
      write_as(static_cast<float*>(to), stride, rows, width);
  }
};

/// The sum over the 16 threads that share rows of a tile.
__device__ inline float across_max(float value) {
  for (unsigned offset = 8; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(~0u, value, offset);
    value = other > value ? other : value;
  }
  return value;
}
__device__ inline float across_sum(float value) {
  for (unsigned offset = 8; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
  return value;
}

}  // namespace hgt::cuda
