#include "hgtrain/optim/lr_schedule.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/config/config.h"

namespace hgt {
namespace {

/// The numbers of a scheduler section by name.
class Numbers {
 public:
  explicit Numbers(const SchedulerConfig& config) : config_(config) {}

  double get(const char* name, double otherwise) const {
    const auto found = config_.numbers.find(name);
    return found == config_.numbers.end() ? otherwise : found->second;
  }
  double required(const char* name) const {
    if (!config_.numbers.count(name)) fail(fmt::format("needs {}", name));
    return get(name, 0);
  }
  double positive(const char* name, double otherwise) const {
    const double value = get(name, otherwise);
    if (!(value > 0)) fail(fmt::format("{} = {} is not positive", name, value));
    return value;
  }
  double not_negative(const char* name, double otherwise) const {
    const double value = get(name, otherwise);
    if (!(value >= 0)) fail(fmt::format("{} = {} is negative", name, value));
    return value;
  }
  /// DeepSpeed's clamp, because a logarithm over fewer than two steps has no slope.
  double warmup_steps() const { return std::max(2.0, not_negative("warmup_num_steps", 1000)); }
  bool logarithmic() const { return config_.warmup_type != "linear"; }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kConfig, fmt::format("scheduler {} {}", config_.type, what));
  }
  const SchedulerConfig& config_;
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// The share of the way from the minimum to the maximum after `i` of `steps`.
double warmed_up(double i, double steps, bool logarithmic) {
  return logarithmic ? std::log(i + 1) / std::log(steps) : i / steps;
}

double no_decay(double) {
  return 1;
}

double linear_decay(double x) {
  return 1 - x;
}

double cosine_decay(double x) {
  return (1 + std::cos(std::numbers::pi * x)) / 2;
}

double minus_sqrt_decay(double x) {
  return 1 - std::sqrt(x);
}

}  // namespace

LrSchedule::LrSchedule(const Config& config)
    : shape_(make_shape(config.scheduler, config)),
      skipped_(Numbers(config.scheduler).get("last_batch_iteration", -1) + 1),
      lr_(config.optimizer.lr) {}

Rate LrSchedule::at(std::int64_t updates) const {
  if (skipped_ > 0 && updates == 0) return {lr_, {}, {}};
  return std::visit(
      [&](const auto& shape) { return shape.at(static_cast<double>(updates) + skipped_); }, shape_);
}

LrSchedule::Native LrSchedule::native(const TrainingConfig& training, double lr) {
  const LrScheduleConfig& s = training.lr_schedule;
  const auto warmup = static_cast<double>(s.warmup_iters);
  const auto total = static_cast<double>(training.train_iters);
  const auto length_or = [&](double otherwise) {
    return std::max(1.0, s.decay_iters > 0 ? static_cast<double>(s.decay_iters) : otherwise);
  };
  if (s.type == "constant") return {lr, s.min_lr, warmup, warmup, 1, no_decay};
  if (s.type == "cosine")
    return {lr, s.min_lr, warmup, warmup, length_or(total - warmup), cosine_decay};
  if (s.type != "wsd")
    throw Error(ErrorKind::kConfig,
                fmt::format("training.lr_schedule.type '{}' is not known", s.type));
  const double length = length_or(std::floor(total / 10));
  const auto curve = s.decay_style == "cosine"       ? cosine_decay
                     : s.decay_style == "minus_sqrt" ? minus_sqrt_decay
                                                     : linear_decay;
  return {lr, s.min_lr, warmup, std::max(warmup, total - length), length, curve};
}

LrSchedule::Shape LrSchedule::make_shape(const SchedulerConfig& scheduler, const Config& config) {
  const OptimizerConfig& optimizer = config.optimizer;
  const Numbers n(scheduler);
  const std::string type = lower(scheduler.type);
  if (type.empty()) return native(config.training, optimizer.lr);
  if (type == "warmuplr")
    return Warmup{n.get("warmup_min_lr", 0), n.get("warmup_max_lr", optimizer.lr), n.warmup_steps(),
                  n.logarithmic(), std::nullopt};
  if (type == "warmupdecaylr")
    return Warmup{n.get("warmup_min_lr", 0), n.get("warmup_max_lr", 0.001), n.warmup_steps(),
                  n.logarithmic(), n.required("total_num_steps")};
  if (type == "warmupcosinelr")
    return WarmupCosine{optimizer.lr,
                        n.required("total_num_steps"),
                        n.warmup_steps(),
                        n.get("warmup_min_ratio", 0),
                        n.get("cos_min_ratio", 1e-4),
                        n.logarithmic()};
  if (type == "onecycle") {
    const double first = n.positive("cycle_first_step_size", 2000);
    const double stairs = n.not_negative("cycle_first_stair_count", 0);
    return OneCycle{n.required("cycle_min_lr"),
                    n.required("cycle_max_lr"),
                    first,
                    n.not_negative("cycle_second_step_size", first),
                    stairs,
                    n.not_negative("cycle_second_stair_count", stairs),
                    n.not_negative("decay_step_size", 0),
                    n.get("decay_lr_rate", 0),
                    n.get("cycle_momentum", 1) != 0,
                    n.get("cycle_min_mom", 0.8),
                    n.get("cycle_max_mom", 0.9),
                    n.get("decay_mom_rate", 0)};
  }
  if (type == "lrrangetest")
    return RangeTest{
        n.get("lr_range_test_min_lr", 1e-3), n.positive("lr_range_test_step_size", 2000),
        n.get("lr_range_test_step_rate", 1.0), n.get("lr_range_test_staircase", 0) != 0};
  throw Error(ErrorKind::kConfig, fmt::format("scheduler type '{}' is not built", scheduler.type),
              "use WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle or LRRangeTest, or leave the "
              "section out for a constant rate");
}

Rate LrSchedule::Native::at(double k) const {
  if (k < warmup) return {lr * (k + 1) / warmup, {}, {}};
  const double x = std::clamp((k - decay_begin) / decay, 0.0, 1.0);
  return {min_lr + (lr - min_lr) * curve(x), {}, {}};
}

Rate LrSchedule::Warmup::at(double k) const {
  const double i = k - 1;
  double share = 1;
  if (i < 0)
    share = 0;
  else if (i < steps)
    share = warmed_up(i, steps, logarithmic);
  else if (total)
    share = std::max(0.0, (*total - i) / std::max(1.0, *total - steps));
  return {min_lr + (max_lr - min_lr) * share, {}, {}};
}

Rate LrSchedule::WarmupCosine::at(double k) const {
  const double i = k - 1;
  if (i < 0) return {0, {}, {}};
  double ratio = 0;
  if (i < steps) {
    ratio = warmup_min_ratio + (1 - warmup_min_ratio) * warmed_up(i, steps, logarithmic);
  } else {
    const double progress = std::min(1.0, (i - steps + 1) / std::max(1.0, total - steps));
    ratio = std::max(0.0, cos_min_ratio + (1 - cos_min_ratio) * cosine_decay(progress));
  }
  return {lr * ratio, {}, {}};
}

/// 0 at the ends of a cycle, 1 at its peak.
double LrSchedule::OneCycle::cycle_position(double k) const {
  const double length = first + second;
  const double cycle = std::floor(1 + k / length);
  const double x = 1 + k / length - cycle, peak = first / length;
  const double offset = std::fmod(k, length);
  if (x <= peak)
    return first_stairs > 0 ? std::floor(offset * first_stairs / first) / first_stairs : x / peak;
  return second_stairs > 0 ? std::floor((length - offset) * second_stairs / second) / second_stairs
                           : (x - 1) / (peak - 1);
}

Rate LrSchedule::OneCycle::at(double k) const {
  const double i = k - 1, length = first + second;
  Rate rate;
  double momentum = 0;
  if (i < length) {
    const double position = cycle_position(k);
    rate.lr = min_lr + (max_lr - min_lr) * position;
    momentum = k == 0 ? min_momentum : max_momentum - (max_momentum - min_momentum) * position;
  } else {
    const double decays = decay_step_size > 0 ? (i - length + 1) / decay_step_size : 0;
    rate.lr = min_lr / (1 + decay_lr_rate * decays);
    momentum = max_momentum * (1 + decay_momentum_rate * decays);
  }
  if (cycles_momentum) {
    rate.beta1 = momentum;
    rate.beta2 = 0.99;
  }
  return rate;
}

Rate LrSchedule::RangeTest::at(double k) const {
  const double intervals = staircase ? std::floor(k / step_size) : k / step_size;
  return {min_lr * (1 + step_rate * intervals), {}, {}};
}

}  // namespace hgt
