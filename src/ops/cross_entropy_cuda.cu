#include "cuda_launchers.h"
#include "cuda_reduce.h"

namespace hgt::cuda {
namespace {

constexpr unsigned kThreads = 512;

// A block a row: maximum, sum of exponentials, then the gradient in place.
__global__ void cross_entropy_rows(CrossEntropyArgs args) {
  const std::int64_t n = blockIdx.x;
  const std::int32_t target = args.targets[n];
  float* const row = args.logits + n * args.vocabulary;
  const bool counts = target != args.ignored;
  const bool known = target >= 0 && target < args.vocabulary;
  if (!counts || !known) {
    const float value = counts ? NAN : 0.0f;
    for (std::int64_t v = threadIdx.x; v < args.vocabulary; v += blockDim.x) row[v] = value;
    if (threadIdx.x == 0) args.losses[n] = value;
    return;
  }
  float highest = -INFINITY, sum = 0;
  for (std::int64_t v = threadIdx.x; v < args.vocabulary; v += blockDim.x)
    highest = greater(highest, row[v]);
  highest = block_max(highest);
  for (std::int64_t v = threadIdx.x; v < args.vocabulary; v += blockDim.x)
    sum += expf(row[v] - highest);
  sum = block_sum(sum);
  if (threadIdx.x == 0) args.losses[n] = logf(sum) + highest - row[target];
  if (!args.backward) return;
  __syncthreads();  // the target's logit has been read
  const float factor = args.gradient_scale / sum;
  for (std::int64_t v = threadIdx.x; v < args.vocabulary; v += blockDim.x)
    row[v] = expf(row[v] - highest) * factor - (v == target ? args.gradient_scale : 0.0f);
}

}  // namespace

void cross_entropy(const CrossEntropyArgs& args, CudaStreamState& stream) {
  launch(cross_entropy_rows, {{blocks_for(args.rows, 1)}, {kThreads}}, stream, args);
}

}  // namespace hgt::cuda
