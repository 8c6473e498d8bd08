#include "hgtrain/device/cuda_launch.h"

#include "add_received.h"

// Bytes moved: each rank's values once, and the sums once.

namespace hgt {
namespace {

constexpr unsigned kThreads = 256;
constexpr int kVector = 8;  ///< values in 16 bytes

__device__ float to_float(__half x) {
  return __half2float(x);
}
__device__ float to_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
__device__ void store(__half* to, float x) {
  *to = __float2half_rn(x);
}
__device__ void store(__nv_bfloat16* to, float x) {
  *to = __float2bfloat16_rn(x);
}

__device__ bool is_aligned(const void* at) {
  return reinterpret_cast<std::uintptr_t>(at) % sizeof(uint4) == 0;
}

template <class T>
struct alignas(16) Values {
  T of[kVector];
};

/// The first `count` of the values from there, at most a vector of them.
template <class T>
__device__ Values<T> read(const T* from, std::int64_t count) {
  Values<T> out;
  if (count >= kVector && is_aligned(from)) {
    reinterpret_cast<uint4&>(out) = *reinterpret_cast<const uint4*>(from);
    return out;
  }
#pragma unroll
  for (int i = 0; i < kVector; ++i) out.of[i] = from[i < count ? i : 0];
  return out;
}

/// The i-th of the other ranks' values are at received[i * stride].
struct AddRanksArgs {
  void* values;
  const void* received;
  std::int64_t count, stride;
  int rank, ranks;
};

template <class T>
__global__ void __launch_bounds__(kThreads) add_ranks(AddRanksArgs args) {
  const std::int64_t at = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kVector;
  const std::int64_t left = args.count - at;
  if (left <= 0) return;
  T* const values = static_cast<T*>(args.values) + at;
  const T* received = static_cast<const T*>(args.received) + at;
  float sums[kVector];
  for (int rank = 0; rank < args.ranks; ++rank) {
    const bool own = rank == args.rank;
    const Values<T> of_rank = read<T>(own ? values : received, left);
    if (!own) received += args.stride;
#pragma unroll
    for (int i = 0; i < kVector; ++i)
      sums[i] = rank == 0 ? to_float(of_rank.of[i]) : sums[i] + to_float(of_rank.of[i]);
  }
  Values<T> out;
#pragma unroll
  for (int i = 0; i < kVector; ++i) store(out.of + i, sums[i]);
  if (left >= kVector && is_aligned(values)) {
    __stwb(reinterpret_cast<uint4*>(values), reinterpret_cast<const uint4&>(out));
    return;
  }
#pragma unroll
  for (int i = 0; i < kVector; ++i)
    if (i < left) values[i] = out.of[i];
}

}  // namespace

void add_received(const ReceivedParts& of, std::span<const OwnedRange> parts,
                  CudaStreamState& stream) {
  const auto size = static_cast<std::int64_t>(size_of(of.type));
  const std::int64_t stride = own_elements(parts, of.rank);
  std::int64_t at = 0;
  for (const auto& [elements, rank] : parts) {
    if (rank != of.rank) continue;
    launch(of.type == DType::kBF16 ? add_ranks<__nv_bfloat16> : add_ranks<__half>,
           {{blocks_for(elements.size(), kThreads, kVector)}, {kThreads}}, stream,
           AddRanksArgs{static_cast<std::byte*>(of.values) + elements.begin * size,
                        static_cast<const std::byte*>(of.received) + at * size, elements.size(),
                        stride, of.rank, of.ranks});
    at += elements.size();
  }
}

}  // namespace hgt
