#include <algorithm>
#include <cstdint>

#include "hgtrain/base/element.h"

#include "kernels.h"
#include "rows.h"
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

/// Calls fn with the activation and an element as types, so that loops are compiled for each.
template <class Fn>
void visit(Activation f, DType dtype, const Fn& fn) {
  visit_element(dtype, [&](auto element) {
    switch (f) {
      case Activation::kGeluTanh:
        return fn(GeluTanh{}, element);
      case Activation::kGelu:
        return fn(Gelu{}, element);
      case Activation::kRelu:
        return fn(Relu{}, element);
      case Activation::kSilu:
        return fn(Silu{}, element);
    }
  });
}

/// Runs fn(i) for i in [begin, end) as vector code, and fetches the operands early: the arithmetic
/// of a few elements fills the CPU's window of instructions before it sees the next loads.
template <class Fn, class... T>
void for_elements(std::int64_t begin, std::int64_t end, const Fn& fn, T*... operands) {
  constexpr std::int64_t kBlock = 64, kAhead = 1024;
  for (std::int64_t block = begin; block < end; block += kBlock) {
    if (block + kAhead < end) (fetch(operands + block + kAhead, kBlock), ...);
    const std::int64_t block_end = std::min(block + kBlock, end);
#pragma omp simd
    for (std::int64_t i = block; i < block_end; ++i) fn(i);
  }
}

}  // namespace

void activation_fwd(Activation f, const Tensor& x, const Tensor& y, ThreadPool& pool) {
  visit(f, x.dtype(), [&]<class T>(auto act, T) {
    const T* const xs = x.data<T>();
    T* const ys = y.data<T>();
    pool.parallel_for(x.numel(), [&](std::int64_t begin, std::int64_t end, int) {
      for_elements(
          begin, end, [&](std::int64_t i) { ys[i] = act.value(xs[i]); }, xs, ys);
    });
  });
}

void activation_bwd(Activation f, const Tensor& x, const Tensor& dy, const Tensor& dx,
                    ThreadPool& pool) {
  visit(f, x.dtype(), [&]<class T>(auto act, T) {
    const T* const xs = x.data<T>();
    const T* const dys = dy.data<T>();
    T* const dxs = dx.data<T>();
    pool.parallel_for(x.numel(), [&](std::int64_t begin, std::int64_t end, int) {
      for_elements(
          begin, end, [&](std::int64_t i) { dxs[i] = dys[i] * act.with_slope(xs[i]).slope; }, xs,
          dys);
    });
  });
}

void gated_activation_fwd(Activation f, const Tensor& gate_up, const Tensor& y, ThreadPool& pool) {
  const std::int64_t width = y.size(1);
  visit(f, y.dtype(), [&]<class T>(auto act, T) {
    pool.parallel_for(y.size(0), [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t n = begin; n < end; ++n) {
        const T* const gate = gate_up.data<T>() + n * 2 * width;
        const T* const up = gate + width;
        T* const out = y.data<T>() + n * width;
        for_elements(
            0, width, [&](std::int64_t i) { out[i] = act.value(gate[i]) * up[i]; }, gate, up, out);
      }
    });
  });
}

void gated_activation_bwd(Activation f, const Tensor& gate_up, const Tensor& dy,
                          const Tensor& d_gate_up, ThreadPool& pool) {
  const std::int64_t width = dy.size(1);
  visit(f, dy.dtype(), [&]<class T>(auto act, T) {
    pool.parallel_for(dy.size(0), [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t n = begin; n < end; ++n) {
        const T* const gate = gate_up.data<T>() + n * 2 * width;
        const T* const up = gate + width;
        const T* const d = dy.data<T>() + n * width;
        T* const d_gate = d_gate_up.data<T>() + n * 2 * width;
        T* const d_up = d_gate + width;
        const auto backward = [&](std::int64_t i) {
          const Value v = act.with_slope(gate[i]);
          const float grad_gate = d[i] * up[i] * v.slope;
          d_up[i] = d[i] * v.y;
          d_gate[i] = grad_gate;
        };
        for_elements(0, width, backward, gate, up, d);
      }
    });
  });
}

}  // namespace hgt::cpu
