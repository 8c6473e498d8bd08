#include "hgtrain/device/cuda_launch.h"

#include "cuda_launchers.h"

namespace hgt::cuda {
namespace {

constexpr unsigned kThreads = 256;

// A thread a pair (i, i + width / 2).
__global__ void rotate_pairs(RopeArgs args) {
  const std::int64_t half = args.width / 2;
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= args.batch * args.length * args.heads * half) return;
  const std::int64_t i = at % half, h = at / half % args.heads;
  const std::int64_t t = at / half / args.heads % args.length,
                     b = at / half / args.heads / args.length;
  float* const first = args.x.data + b * args.x.batch_stride + t * args.x.position_stride +
                       h * args.x.head_stride + i;
  const float cos = args.cos[t * half + i], sin = args.direction * args.sin[t * half + i];
  const float a = first[0], c = first[half];
  first[0] = a * cos - c * sin;
  first[half] = c * cos + a * sin;
}

}  // namespace

void rope(const RopeArgs& args, CudaStreamState& stream) {
  const std::int64_t pairs = args.batch * args.length * args.heads * (args.width / 2);
  launch(rotate_pairs, {{blocks_for(pairs, kThreads)}, {kThreads}}, stream, args);
}

}  // namespace hgt::cuda
