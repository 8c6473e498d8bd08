#include "hgtrain/optim/adam.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

#include "chunks.h"

namespace hgt {
namespace {

/// The constants of one update.
struct Update {
  float lr, beta1, beta2, eps, weight_decay, gradient_factor;
  float inverse_bc1, inverse_sqrt_bc2;
};

template <bool decoupled>
void update_range(const Update& u, float* __restrict p, const float* __restrict g,
                  float* __restrict m, float* __restrict v, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    float gradient = g[i] * u.gradient_factor;
    if constexpr (!decoupled) gradient += u.weight_decay * p[i];
    m[i] = u.beta1 * m[i] + (1 - u.beta1) * gradient;
    v[i] = u.beta2 * v[i] + (1 - u.beta2) * gradient * gradient;
    float change = m[i] * u.inverse_bc1 / (std::sqrt(v[i]) * u.inverse_sqrt_bc2 + u.eps);
    if constexpr (decoupled) change += u.weight_decay * p[i];
    p[i] -= u.lr * change;
  }
}

bool is_decoupled(const OptimizerConfig& config) {
  std::string type = config.type;
  std::transform(type.begin(), type.end(), type.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (type == "adamw") return true;
  if (type == "adam") return config.adam_w_mode;
  throw Error(ErrorKind::kConfig, fmt::format("optimizer type '{}' is not built", config.type),
              "use AdamW or Adam");
}

}  // namespace

Adam::Adam(const OptimizerConfig& config, const Buffers& buffers, std::int64_t decay_end,
           ThreadPool& pool)
    : config_(config),
      buffers_(buffers),
      decay_end_(decay_end),
      decoupled_(is_decoupled(config)),
      pool_(pool) {}

void Adam::step(const Rate& rate, double gradient_factor, std::int64_t t) {
  const double beta1 = rate.beta1.value_or(config_.beta1),
               beta2 = rate.beta2.value_or(config_.beta2);
  const double power = static_cast<double>(t);
  const double bc1 = config_.bias_correction ? 1 - std::pow(beta1, power) : 1;
  const double bc2 = config_.bias_correction ? 1 - std::pow(beta2, power) : 1;
  Update update{static_cast<float>(rate.lr),
                static_cast<float>(beta1),
                static_cast<float>(beta2),
                static_cast<float>(config_.eps),
                static_cast<float>(config_.weight_decay),
                static_cast<float>(gradient_factor),
                static_cast<float>(1 / bc1),
                static_cast<float>(1 / std::sqrt(bc2))};
  const auto run = [&](Range range) {
    const auto update_one = decoupled_ ? update_range<true> : update_range<false>;
    update_one(update, buffers_.parameters.data() + range.begin,
               buffers_.gradients.data() + range.begin, buffers_.exp_avg.data() + range.begin,
               buffers_.exp_avg_sq.data() + range.begin, range.size());
  };
  const auto total = static_cast<std::int64_t>(buffers_.parameters.size());
  for_chunks(pool_, {0, decay_end_}, run);
  update.weight_decay = 0;
  for_chunks(pool_, {decay_end_, total}, run);
}

}  // namespace hgt
