// Over flat buffers: fills, casts, the optimizer and the norm of the gradients.

#include "cuda_launchers.h"
#include "cuda_reduce.h"

namespace hgt::cuda {
namespace {

constexpr unsigned kThreads = 256;

__device__ std::int64_t element_of_thread() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

LaunchShape shape_for(std::int64_t count) {
  return {{blocks_for(count, kThreads)}, {kThreads}};
}

__global__ void fill_elements(FillArgs args) {
  const std::int64_t i = element_of_thread();
  if (i < args.count) args.values[i] = args.value;
}

__device__ float to_float(float x) {
  return x;
}
__device__ float to_float(__half x) {
  return __half2float(x);
}
__device__ float to_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
__device__ void store(float* to, float x) {
  *to = x;
}
__device__ void store(__half* to, float x) {
  *to = __float2half_rn(x);
}
__device__ void store(__nv_bfloat16* to, float x) {
  *to = __float2bfloat16_rn(x);
}

template <class To, class From>
__global__ void cast_elements(CastArgs args) {
  const std::int64_t i = element_of_thread();
  if (i < args.count)
    store(static_cast<To*>(args.to) + i, to_float(static_cast<const From*>(args.from)[i]));
}

using CastKernel = void (*)(CastArgs);

CastKernel cast_kernel(CudaFloat from, CudaFloat to) {
  if (to == CudaFloat::kF32)
    return from == CudaFloat::kF32    ? cast_elements<float, float>
           : from == CudaFloat::kBF16 ? cast_elements<float, __nv_bfloat16>
                                      : cast_elements<float, __half>;
  if (from != CudaFloat::kF32) throw Error(ErrorKind::kInternal, "a cast has fp32 on one side");
  return to == CudaFloat::kBF16 ? cast_elements<__nv_bfloat16, float>
                                : cast_elements<__half, float>;
}

__global__ void adam_elements(AdamArgs args) {
  const std::int64_t i = element_of_thread();
  if (i >= args.count) return;
  const float weight_decay = i < args.decay_end ? args.weight_decay : 0.0f;
  float p = args.parameters[i];
  float gradient = args.gradients[i] * args.gradient_factor;
  if (!args.decoupled) gradient += weight_decay * p;
  const float m = args.beta1 * args.exp_avg[i] + (1 - args.beta1) * gradient;
  const float v = args.beta2 * args.exp_avg_sq[i] + (1 - args.beta2) * gradient * gradient;
  float change = m * args.inverse_bc1 / (sqrtf(v) * args.inverse_sqrt_bc2 + args.eps);
  if (args.decoupled) change += weight_decay * p;
  args.exp_avg[i] = m;
  args.exp_avg_sq[i] = v;
  args.parameters[i] = p - args.lr * change;
}

constexpr std::int64_t kSquaresPerBlock = 16384;

struct SquaresArgs {
  const float* values;
  std::int64_t count;
  double* sums;  ///< a sum a block
};

__global__ void sum_block_squares(SquaresArgs args) {
  const std::int64_t begin = blockIdx.x * kSquaresPerBlock;
  const std::int64_t end =
      begin + kSquaresPerBlock < args.count ? begin + kSquaresPerBlock : args.count;
  double sum = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const double x = args.values[i];
    sum += x * x;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) args.sums[blockIdx.x] = sum;
}

template <class T>
struct TotalArgs {
  const T* values;
  std::int64_t count;
  double* out;
};

/// By one block: for a few thousand values.
template <class T>
__global__ void sum_total(TotalArgs<T> args) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < args.count; i += blockDim.x) sum += args.values[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *args.out = sum;
}

}  // namespace

void fill(const FillArgs& args, CudaStreamState& stream) {
  launch(fill_elements, shape_for(args.count), stream, args);
}

void cast(const CastArgs& args, CudaStreamState& stream) {
  launch(cast_kernel(args.from_type, args.to_type), shape_for(args.count), stream, args);
}

void adam(const AdamArgs& args, CudaStreamState& stream) {
  launch(adam_elements, shape_for(args.count), stream, args);
}

void sum_of_squares(const SumOfSquaresArgs& args, CudaStreamState& stream) {
  const unsigned blocks = blocks_for(args.count, 1, kSquaresPerBlock);
  double* const sums = stream.scratch<double>(blocks);
  launch(sum_block_squares, {{blocks}, {kThreads}}, stream,
         SquaresArgs{args.values, args.count, sums});
  launch(sum_total<double>, {{1}, {kThreads}}, stream, TotalArgs<double>{sums, blocks, args.out});
}

void sum(const SumArgs& args, CudaStreamState& stream) {
  launch(sum_total<float>, {{1}, {kThreads}}, stream,
         TotalArgs<float>{args.values, args.count, args.out});
}

}  // namespace hgt::cuda
