#pragma once

#include <cstdint>
#include <optional>
#include <variant>

namespace hgt {

struct Config;
struct SchedulerConfig;
struct TrainingConfig;

/// What a schedule sets for one update. The betas are set only if it cycles the momentum.
struct Rate {
  double lr = 0;
  std::optional<double> beta1;
  std::optional<double> beta2;
};

/// The learning rate of each update: DeepSpeed's schedules if `scheduler` has a type, else
/// `training.lr_schedule`.
///
/// DeepSpeed's, number for number: WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle, LRRangeTest.
/// Source: deepspeed/runtime/lr_schedules.py. As there, the first update of a warmup has the
/// minimum rate (0 unless set), and OneCycle with cycle_momentum sets beta1 to the cycled momentum
/// and beta2 to 0.99. With last_batch_iteration they start after that iteration, and the first
/// update has the optimizer's rate.
///
/// Our own: after k updates of the T = train_iters, with W = warmup_iters and lr the optimizer's,
///
///   k < W     lr (k + 1) / W
///   k >= W    min_lr + (lr - min_lr) f(x),  x = (k - S) / D, kept in [0, 1]
///
///   constant  f = 1
///   cosine    f = (1 + cos(pi x)) / 2,  S = W, D = decay_iters or T - W
///   wsd       S = T - D, D = decay_iters or T / 10; f = 1 - x (linear), as above (cosine), or
///             1 - sqrt(x) (minus_sqrt)
///
/// So no update has the rate 0, not even the last: min_lr would follow it. S is at least W, D at
/// least 1. Sources: Loshchilov and Hutter 2017, arXiv:1608.03983; Hu et al. 2024, arXiv:2404.06395
/// (warmup, stable, decay); Haegele et al. 2024, arXiv:2405.18392 (1 - sqrt).
class LrSchedule {
 public:
  /// Error(kConfig) if a number is missing or out of range.
  explicit LrSchedule(const Config& config);

  /// The rate of the update after `updates` applied ones. A pure function: resuming needs no state.
  Rate at(std::int64_t updates) const;

 private:
  struct Native {
    double lr, min_lr, warmup, decay_begin, decay;
    double (*curve)(double x);
    Rate at(double k) const;
  };
  struct Warmup {  ///< WarmupLR, and WarmupDecayLR if `total` is given
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
  using Shape = std::variant<Native, Warmup, WarmupCosine, OneCycle, RangeTest>;
  static Native native(const TrainingConfig& training, double lr);
  static Shape make_shape(const SchedulerConfig& scheduler, const Config& config);

  Shape shape_;
  double skipped_;  ///< updates of the schedule before the first of the run
  double lr_;
};

}  // namespace hgt
