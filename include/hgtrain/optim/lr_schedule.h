#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "hgtrain/config/config.h"

namespace hgt {

/// What a schedule sets for one update. The betas only where it cycles the momentum.
struct Rate {
  double lr = 0;
  std::optional<double> beta1;
  std::optional<double> beta2;
};

/// DeepSpeed's learning-rate schedules, number for number: WarmupLR, WarmupDecayLR, WarmupCosineLR,
/// OneCycle, LRRangeTest; no type is the optimizer's constant rate.
/// Source: deepspeed/runtime/lr_schedules.py. As there, the warmups' first update has the minimum
/// rate (0 unless set), and OneCycle with cycle_momentum sets beta1 to the cycled momentum and
/// beta2 to 0.99.
class LrSchedule {
 public:
  /// Error(kConfig) where a number is missing or out of range.
  LrSchedule(const SchedulerConfig& scheduler, const OptimizerConfig& optimizer);

  /// For the update that follows `updates` applied ones. A pure function: resuming needs no state.
  Rate at(std::int64_t updates) const;

 private:
  struct Constant {
    double lr;
    Rate at(double k) const;
  };
  struct Warmup {  ///< WarmupLR, and WarmupDecayLR where `total` is given
    double min_lr, max_lr, steps;
    bool logarithmic;
    std::optional<double> total;
    Rate at(double k) const;
  };
  struct WarmupCosine {
    double lr, total, steps, warmup_min_ratio, cos_min_ratio;
    bool logarithmic;
    Rate at(double k) const;
  };
  struct OneCycle {
    double min_lr, max_lr, first, second, first_stairs, second_stairs, decay_step_size,
        decay_lr_rate;
    bool cycles_momentum;
    double min_momentum, max_momentum, decay_momentum_rate;
    Rate at(double k) const;
    double cycle_position(double k) const;
  };
  struct RangeTest {
    double min_lr, step_size, step_rate;
    bool staircase;
    Rate at(double k) const;
  };
  using Shape = std::variant<Constant, Warmup, WarmupCosine, OneCycle, RangeTest>;
  static Shape make_shape(const SchedulerConfig& scheduler, const OptimizerConfig& optimizer);

  Shape shape_;
};

}  // namespace hgt
