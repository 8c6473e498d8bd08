#include <algorithm>

#include "hgtrain/base/kernel_sizes.h"

#include "kernel.h"

// Bytes moved: every operand once.

namespace hgt::cuda {
namespace {

struct Value {
  float y, slope;
};

__device__ Value activation(Activation f, float x) {
  switch (f) {
    case Activation::kGeluTanh: {
      // x (1 + tanh u) / 2 = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3)
      constexpr float k = 1.59576912f;
      const float s = 1.0f / (1.0f + expf(-k * x * (1.0f + 0.044715f * x * x)));
      return {x * s, s + x * s * (1.0f - s) * k * (1.0f + 3 * 0.044715f * x * x)};
    }
    case Activation::kGelu: {
      const float cdf = normcdff(x), density = 0.398942280f * expf(-0.5f * x * x);
      return {x * cdf, cdf + x * density};
    }
    case Activation::kRelu:
      return {x < 0 ? 0.0f : x, x > 0 ? 1.0f : 0.0f};
    case Activation::kSilu: {
      const float s = 1.0f / (1.0f + expf(-x));
      return {x * s, s + x * s * (1.0f - s)};
    }
  }
  return {NAN, NAN};
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads) activate(ActivationArgs args) {
  const std::int64_t at = first_of_thread<T>();
  if (at >= args.count) return;
  map_vector<T, 1, 1>({static_cast<const T*>(args.x) + at}, {static_cast<T*>(args.y) + at},
                      args.count - at,
                      [&](const float(&x)[1], float(&y)[1]) { y[0] = activation(args.f, x[0]).y; });
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads) activate_bwd(ActivationBwdArgs args) {
  const std::int64_t at = first_of_thread<T>();
  if (at >= args.count) return;
  map_vector<T, 2, 1>({static_cast<const T*>(args.x) + at, static_cast<const T*>(args.dy) + at},
                      {static_cast<T*>(args.dx) + at}, args.count - at,
                      [&](const float(&x_dy)[2], float(&dx)[1]) {
                        dx[0] = x_dy[1] * activation(args.f, x_dy[0]).slope;
                      });
}

/// A thread's vector in a row of gate and up; vectors do not cross rows. Rows are the grid's first
/// dimension, and so are not limited to 65535.
template <class T>
struct GatedPlace {
  std::int64_t row, column, left;  ///< elements left in the row

  __device__ explicit GatedPlace(std::int64_t width)
      : row(blockIdx.x),
        column(std::int64_t{blockIdx.y * blockDim.x + threadIdx.x} * kVector<T>),
        left(width - column) {}
};

template <class T>
__global__ void __launch_bounds__(kBlockThreads) activate_gated(GatedActivationArgs args) {
  const GatedPlace<T> place(args.width);
  if (place.left <= 0) return;
  const T* const gates =
      static_cast<const T*>(args.gate_up) + place.row * 2 * args.width + place.column;
  map_vector<T, 2, 1>({gates, gates + args.width},
                      {static_cast<T*>(args.y) + place.row * args.width + place.column}, place.left,
                      [&](const float(&gate_up)[2], float(&y)[1]) {
                        y[0] = activation(args.f, gate_up[0]).y * gate_up[1];
                      });
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads) activate_gated_bwd(GatedActivationBwdArgs args) {
  const GatedPlace<T> place(args.width);
  if (place.left <= 0) return;
  const std::int64_t at = place.row * 2 * args.width + place.column;
  const T* const gates = static_cast<const T*>(args.gate_up) + at;
  const T* const dy = static_cast<const T*>(args.dy) + place.row * args.width + place.column;
  T* const d_gates = static_cast<T*>(args.d_gate_up) + at;
  map_vector<T, 3, 2>({gates, gates + args.width, dy}, {d_gates, d_gates + args.width}, place.left,
                      [&](const float(&in)[3], float(&out)[2]) {
                        const auto& [gate, up, dy] = in;
                        const Value value = activation(args.f, gate);
                        out[0] = dy * up * value.slope;
                        out[1] = dy * value.y;
                      });
}

/// The fewest blocks for a row, with as many threads each.
template <class T>
LaunchShape gated_shape(std::int64_t rows, std::int64_t width) {
  const std::int64_t vectors = std::max<std::int64_t>((width + kVector<T> - 1) / kVector<T>, 1);
  const std::int64_t blocks = (vectors + kBlockThreads - 1) / kBlockThreads;
  const std::int64_t threads = round_up((vectors + blocks - 1) / blocks, kWarp);
  return {{blocks_for(rows, 1), static_cast<unsigned>(blocks)}, {static_cast<unsigned>(threads)}};
}

}  // namespace

void activation_fwd(const ActivationArgs& args, CudaStreamState& stream) {
  visit_element(args.type, [&]<class T>(T) {
    launch(activate<T>, vectors_shape<T>(args.count), stream, args);
  });
}

void activation_bwd(const ActivationBwdArgs& args, CudaStreamState& stream) {
  visit_element(args.type, [&]<class T>(T) {
    launch(activate_bwd<T>, vectors_shape<T>(args.count), stream, args);
  });
}

void gated_activation_fwd(const GatedActivationArgs& args, CudaStreamState& stream) {
  visit_element(args.type, [&]<class T>(T) {
    launch(activate_gated<T>, gated_shape<T>(args.rows, args.width), stream, args);
  });
}

void gated_activation_bwd(const GatedActivationBwdArgs& args, CudaStreamState& stream) {
  visit_element(args.type, [&]<class T>(T) {
    launch(activate_gated_bwd<T>, gated_shape<T>(args.rows, args.width), stream, args);
  });
}

}  // namespace hgt::cuda
