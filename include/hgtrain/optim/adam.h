#pragma once

#include <cstdint>
#include <span>

#include "hgtrain/config/config.h"
#include "hgtrain/optim/lr_schedule.h"

namespace hgt {

class ThreadPool;

/// Adam and AdamW over flat fp32 buffers, in place.
///
///   AdamW:  p -= lr * ((m / bc1) / (sqrt(v / bc2) + eps) + weight_decay * p)
///   Adam with adam_w_mode false:  weight_decay * p is added to the gradient instead
///   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,  bc = 1 - beta^t (1 if
///   !bias_correction)
///
/// Source: Loshchilov and Hutter 2019; numbers as DeepSpeed's FusedAdam. The update of an element
/// depends on nothing but the element, so no split over threads or ranks changes a bit.
class Adam {
 public:
  /// The buffers, all of one size and padded as a ParameterTable's, outlive it. Weight decay
  /// applies to [0, decay_end). Error(kConfig) where the type is not Adam or AdamW.
  struct Buffers {
    std::span<float> parameters;
    std::span<const float> gradients;
    std::span<float> exp_avg;
    std::span<float> exp_avg_sq;
  };
  Adam(const OptimizerConfig& config, const Buffers& buffers, std::int64_t decay_end,
       ThreadPool& pool);

  /// Applies the gradients times `gradient_factor` as update number `t`, counted from 1.
  void step(const Rate& rate, double gradient_factor, std::int64_t t);

 private:
  OptimizerConfig config_;
  Buffers buffers_;
  std::int64_t decay_end_;
  bool decoupled_;
  ThreadPool& pool_;
};

}  // namespace hgt
