#pragma once

#include <cstdint>
#include <string>

#include "hgtrain/config/precision_config.h"

namespace hgt {

/// The factor of the loss in fp16 training, and the state that it depends on; saved with the
/// weights.
struct LossScale {
  double scale = 1;
  std::int64_t steps = 0;           ///< taken, including skipped ones
  std::int64_t last_overflow = -1;  ///< number of the last skipped step
  std::int64_t hysteresis = 0;      ///< overflows left before the scale shrinks

  bool operator==(const LossScale&) const = default;
};

/// DeepSpeed's loss scaling, by the rules of its DynamicLossScaler at every stage: an overflow
/// halves the scale once `hysteresis` of them have occurred, and `loss_scale_window` steps without
/// one double it, up to 2^31. fp16.loss_scale > 0 is a constant scale; other dtypes have scale 1.
/// Source: deepspeed/runtime/fp16/loss_scaler.py.
class LossScaler {
 public:
  explicit LossScaler(const PrecisionConfig& config) : config_(config) {}

  /// The state of a new run.
  LossScale initial() const;
  /// The state of a run that resumes from a checkpoint with `saved` and weights of that type:
  /// another precision starts anew, and a constant scale is the config's. `has_updated`: some step
  /// was not skipped. Before that, a dynamic scale only falls; so a config with a lower first scale
  /// than the saved one takes effect.
  LossScale resumed(LossScale saved, DType saved_weights, bool has_updated) const;
  /// Call it after a step. `overflow`: its gradients were not finite, and it was skipped.
  /// Error(kCheck) if the scale would have to fall below fp16.min_loss_scale.
  void update(bool overflow, LossScale& state) const;
  /// The hint of an error about steps that were skipped.
  std::string overflow_hint() const;

 private:
  bool dynamic() const { return config_.fp16 && config_.loss_scale == 0; }
  void shrink(LossScale& state) const;
  void grow(LossScale& state) const;
  PrecisionConfig config_;
};

}  // namespace hgt
