#include "cuda_dropout.h"
#include "cuda_launchers.h"

namespace hgt::cuda {
namespace {

constexpr unsigned kThreads = 256;

__global__ void add_dropped(DropoutAddArgs args) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= args.count) return;
  const float factor = dropout_factor(args.dropout, i / args.per_sample, i % args.per_sample);
  args.y[i] = args.branch[i] * factor + (args.x ? args.x[i] : 0.0f);
}

}  // namespace

void dropout_add(const DropoutAddArgs& args, CudaStreamState& stream) {
  launch(add_dropped, {{blocks_for(args.count, kThreads)}, {kThreads}}, stream, args);
}

}  // namespace hgt::cuda
