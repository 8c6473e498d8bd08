#include "hgtrain/device/cuda_launch.h"

#include "cuda_launchers.h"

namespace hgt::cuda {
namespace {

constexpr unsigned kThreads = 256;

struct Value {
  float y, slope;
};

__device__ Value activation(CudaActivation f, float x) {
  switch (f) {
    case CudaActivation::kGeluTanh: {
      // x (1 + tanh u) / 2 = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3)
      constexpr float k = 1.59576912f;
      const float s = 1.0f / (1.0f + expf(-k * x * (1.0f + 0.044715f * x * x)));
      return {x * s, s + x * s * (1.0f - s) * k * (1.0f + 3 * 0.044715f * x * x)};
    }
    case CudaActivation::kGelu: {
      const float cdf = normcdff(x), density = 0.398942280f * expf(-0.5f * x * x);
      return {x * cdf, cdf + x * density};
    }
    case CudaActivation::kRelu:
      return {x < 0 ? 0.0f : x, x > 0 ? 1.0f : 0.0f};
    case CudaActivation::kSilu: {
      const float s = 1.0f / (1.0f + expf(-x));
      return {x * s, s + x * s * (1.0f - s)};
    }
  }
  return {NAN, NAN};
}

__device__ std::int64_t element_of_thread() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

__global__ void activate(ActivationArgs args) {
  const std::int64_t i = element_of_thread();
  if (i < args.count) args.y[i] = activation(args.f, args.x[i]).y;
}

__global__ void activate_bwd(ActivationBwdArgs args) {
  const std::int64_t i = element_of_thread();
  if (i < args.count) args.dx[i] = args.dy[i] * activation(args.f, args.x[i]).slope;
}

__global__ void activate_gated(GatedActivationArgs args) {
  const std::int64_t i = element_of_thread();
  if (i >= args.rows * args.width) return;
  const float* const gate = args.gate_up + i / args.width * 2 * args.width + i % args.width;
  args.y[i] = activation(args.f, gate[0]).y * gate[args.width];
}

__global__ void activate_gated_bwd(GatedActivationBwdArgs args) {
  const std::int64_t i = element_of_thread();
  if (i >= args.rows * args.width) return;
  const std::int64_t at = i / args.width * 2 * args.width + i % args.width;
  const float up = args.gate_up[at + args.width], dy = args.dy[i];
  const Value value = activation(args.f, args.gate_up[at]);
  args.d_gate_up[at] = dy * up * value.slope;
  args.d_gate_up[at + args.width] = dy * value.y;
}

LaunchShape shape_for(std::int64_t count) {
  return {{blocks_for(count, kThreads)}, {kThreads}};
}

}  // namespace

void activation_fwd(const ActivationArgs& args, CudaStreamState& stream) {
  launch(activate, shape_for(args.count), stream, args);
}

void activation_bwd(const ActivationBwdArgs& args, CudaStreamState& stream) {
  launch(activate_bwd, shape_for(args.count), stream, args);
}

void gated_activation_fwd(const GatedActivationArgs& args, CudaStreamState& stream) {
  launch(activate_gated, shape_for(args.rows * args.width), stream, args);
}

void gated_activation_bwd(const GatedActivationBwdArgs& args, CudaStreamState& stream) {
  launch(activate_gated_bwd, shape_for(args.rows * args.width), stream, args);
}

}  // namespace hgt::cuda
