#include "cpu_kernels.h"
#include "vector_math.h"

namespace hgt::cpu {
namespace {

// Each activation is a pair of functions of one float.
struct Value {
  float y, slope;
};

struct GeluTanh {
  /// x (1 + tanh u) / 2 = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
  static float sigmoid_2u(float x) {
    constexpr float k = 1.59576912f;  // 2 sqrt(2 / pi)
    return sigmoid_f32(k * x * (1.0f + 0.044715f * x * x));
  }
  static float value(float x) { return x * sigmoid_2u(x); }
  static Value with_slope(float x) {
    constexpr float k = 1.59576912f;
    const float s = sigmoid_2u(x);
    return {x * s, s + x * s * (1.0f - s) * k * (1.0f + 3 * 0.044715f * x * x)};
  }
};

struct Gelu {
  static float value(float x) { return x * normal_f32(x).cdf; }
  static Value with_slope(float x) {
    const Normal n = normal_f32(x);
    return {x * n.cdf, n.cdf + x * n.density};
  }
};

struct Relu {
  static float value(float x) { return x < 0 ? 0.0f : x; }  // NaN stays NaN
  static Value with_slope(float x) { return {value(x), x > 0 ? 1.0f : 0.0f}; }
};

struct Silu {
  static float value(float x) { return x * sigmoid_f32(x); }
  static Value with_slope(float x) {
    const float s = sigmoid_f32(x);
    return {x * s, s + x * s * (1.0f - s)};
  }
};

/// Calls fn with the activation as a type, so that loops are compiled for each.
template <class Fn>
void visit(Activation f, const Fn& fn) {
  switch (f) {
    case Activation::kGeluTanh:
      return fn(GeluTanh{});
    case Activation::kGelu:
      return fn(Gelu{});
    case Activation::kRelu:
      return fn(Relu{});
    case Activation::kSilu:
      return fn(Silu{});
  }
}

}  // namespace

void activation_fwd(Activation f, const Tensor& x, const Tensor& y, ThreadPool& pool) {
  const float* const xs = x.data<float>();
  float* const ys = y.data<float>();
  visit(f, [&](auto act) {
    pool.parallel_for(x.numel(), [&](std::int64_t begin, std::int64_t end, int) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) ys[i] = act.value(xs[i]);
    });
  });
}

void activation_bwd(Activation f, const Tensor& x, const Tensor& dy, const Tensor& dx,
                    ThreadPool& pool) {
  const float* const xs = x.data<float>();
  const float* const dys = dy.data<float>();
  float* const dxs = dx.data<float>();
  visit(f, [&](auto act) {
    pool.parallel_for(x.numel(), [&](std::int64_t begin, std::int64_t end, int) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) dxs[i] = dys[i] * act.with_slope(xs[i]).slope;
    });
  });
}

void gated_activation_fwd(Activation f, const Tensor& gate_up, const Tensor& y, ThreadPool& pool) {
  const std::int64_t width = y.size(1);
  visit(f, [&](auto act) {
    pool.parallel_for(y.size(0), [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t n = begin; n < end; ++n) {
        const float* const gate = gate_up.data<float>() + n * 2 * width;
        const float* const up = gate + width;
        float* const out = y.data<float>() + n * width;
#pragma omp simd
        for (std::int64_t i = 0; i < width; ++i) out[i] = act.value(gate[i]) * up[i];
      }
    });
  });
}

void gated_activation_bwd(Activation f, const Tensor& gate_up, const Tensor& dy,
                          const Tensor& d_gate_up, ThreadPool& pool) {
  const std::int64_t width = dy.size(1);
  visit(f, [&](auto act) {
    pool.parallel_for(dy.size(0), [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t n = begin; n < end; ++n) {
        const float* const gate = gate_up.data<float>() + n * 2 * width;
        const float* const up = gate + width;
        const float* const d = dy.data<float>() + n * width;
        float* const d_gate = d_gate_up.data<float>() + n * 2 * width;
        float* const d_up = d_gate + width;
#pragma omp simd
        for (std::int64_t i = 0; i < width; ++i) {
          const Value v = act.with_slope(gate[i]);
          const float grad_gate = d[i] * up[i] * v.slope;
          d_up[i] = d[i] * v.y;
          d_gate[i] = grad_gate;
        }
      }
    });
  });
}

}  // namespace hgt::cpu
