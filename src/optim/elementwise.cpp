#include "elementwise.h"

#include <cmath>

#include "hgtrain/config/optimizer_config.h"

namespace hgt {
namespace {

template <bool decoupled>
void adam(const Update& u, float* __restrict p, const float* __restrict g, float* __restrict m,
          float* __restrict v, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    float gradient = g[i] * u.gradient_factor;
    if constexpr (!decoupled) gradient += u.weight_decay * p[i];
    m[i] = u.beta1 * m[i] + u.one_minus_beta1 * gradient;
    v[i] = u.beta2 * v[i] + u.one_minus_beta2 * gradient * gradient;
    float change = m[i] * u.inverse_bc1 / (std::sqrt(v[i]) * u.inverse_sqrt_bc2 + u.eps);
    if constexpr (decoupled) change += u.weight_decay * p[i];
    p[i] -= u.lr * change;
  }
}

void lion(const Update& u, float* __restrict p, const float* __restrict g, float* __restrict m,
          float*, std::int64_t count) {
  const float kept = 1 - u.lr * u.weight_decay;
  for (std::int64_t i = 0; i < count; ++i) {
    const float gradient = g[i] * u.gradient_factor;
    const float direction = u.beta1 * m[i] + u.one_minus_beta1 * gradient;
    const float sign = (direction > 0 ? 1.0f : 0.0f) - (direction < 0 ? 1.0f : 0.0f);
    p[i] = p[i] * kept - u.lr * sign;
    m[i] = u.beta2 * m[i] + u.one_minus_beta2 * gradient;
  }
}

void adagrad(const Update& u, float* __restrict p, const float* __restrict g, float* __restrict sum,
             float*, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float gradient = g[i] * u.gradient_factor + u.weight_decay * p[i];
    sum[i] += gradient * gradient;
    p[i] -= u.lr * gradient / (std::sqrt(sum[i]) + u.eps);
  }
}

void sgd(const Update& u, float* __restrict p, const float* __restrict g, float*, float*,
         std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    p[i] -= u.lr * (g[i] * u.gradient_factor + u.weight_decay * p[i]);
}

template <bool nesterov>
void momentum_sgd(const Update& u, float* __restrict p, const float* __restrict g,
                  float* __restrict b, float*, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float gradient = g[i] * u.gradient_factor + u.weight_decay * p[i];
    b[i] = u.momentum * b[i] + u.one_minus_dampening * gradient;
    p[i] -= u.lr * (nesterov ? gradient + u.momentum * b[i] : b[i]);
  }
}

}  // namespace

Kernel elementwise_kernel(const OptimizerConfig& config) {
  if (config.type == "Lion") return lion;
  if (config.type == "Adagrad") return adagrad;
  if (config.type == "SGD" && config.momentum == 0) return sgd;
  if (config.type == "SGD") return config.nesterov ? momentum_sgd<true> : momentum_sgd<false>;
  return config.type == "AdamW" || config.adam_w_mode ? adam<true> : adam<false>;
}

}  // namespace hgt
