#include "hgtrain/optim/loss_scaler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

LossScale LossScaler::initial() const {
  if (!config_.fp16) return {};
  const double scale = dynamic() ? std::ldexp(1.0, static_cast<int>(config_.initial_scale_power))
                                 : config_.loss_scale;
  return {.scale = scale, .hysteresis = config_.hysteresis};
}

LossScale LossScaler::resumed(LossScale saved, DType saved_weights, bool has_updated) const {
  if (saved_weights != config_.compute_dtype()) return initial();
  if (config_.fp16 && !dynamic()) saved.scale = config_.loss_scale;
  if (dynamic() && !has_updated) saved.scale = std::min(saved.scale, initial().scale);
  return saved;
}

void LossScaler::update(bool overflow, LossScale& state) const {
  if (dynamic()) overflow ? shrink(state) : grow(state);
  ++state.steps;
}

std::string LossScaler::overflow_hint() const {
  constexpr std::int64_t kUsualPower = 16;
  if (dynamic() && config_.initial_scale_power > kUsualPower)
    return fmt::format("set fp16.initial_scale_power to {} or less, or use bf16", kUsualPower);
  return dynamic() ? "lower fp16.initial_scale_power, or use bf16"
                   : "lower fp16.loss_scale, set it to 0 for a dynamic one, or use bf16";
}

void LossScaler::shrink(LossScale& state) const {
  state.last_overflow = state.steps;
  if (config_.hysteresis > 1 && state.hysteresis > 1) {
    --state.hysteresis;
    return;
  }
  // fp16.min_loss_scale may be 0, the scale may not: gradients are divided by it.
  const double min_scale =
      std::max<double>(config_.min_loss_scale, std::numeric_limits<float>::min());
  if (state.scale <= min_scale)
    throw Error(ErrorKind::kCheck,
                fmt::format("gradients overflow fp16 at the lowest loss scale, {}", state.scale),
                "use bf16, a lower learning rate, or a lower fp16.min_loss_scale");
  state.scale = std::max(state.scale / 2, min_scale);
}

void LossScaler::grow(LossScale& state) const {
  constexpr double kHighest = 2147483648.0;
  if (config_.consecutive_hysteresis) state.hysteresis = config_.hysteresis;
  const std::int64_t clean = state.steps - state.last_overflow - 1;
  if (clean == 0 || clean % config_.loss_scale_window != 0) return;
  state.hysteresis = config_.hysteresis;
  state.scale = std::min(state.scale * 2, std::max(kHighest, state.scale));
}

}  // namespace hgt
