#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hgt {

/// Section `training.lr_schedule`; the formulas are in optim/lr_schedule.h.
struct LrScheduleConfig {
  std::string type = "constant";  ///< constant, cosine, wsd
  std::int64_t warmup_iters = 0;  ///< updates
  /// Length of the decay in updates. 0: cosine decays in all updates after the warmup, wsd in a
  /// tenth of the run.
  std::int64_t decay_iters = 0;
  double min_lr = 0;                   ///< rate at the end of the decay
  std::string decay_style = "linear";  ///< of wsd: linear, cosine, minus_sqrt
};

/// Section `training`. The length is given as train_iters, train_samples or num_epochs. Loading
/// turns samples into train_iters; set_epoch_samples does so with num_epochs, once the data is
/// known.
struct TrainingConfig {
  std::int64_t train_iters = 0;
  std::int64_t train_samples = 0;
  double num_epochs = 0;
  std::int64_t seq_length = 0;
  std::int64_t seed = 1234;
  std::int64_t eval_interval = 0;  ///< steps; 0 = never
  std::int64_t eval_iters = 10;    ///< batches of train_batch_size of one evaluation
  bool no_decay_norms_and_biases = false;
  /// Stop once the evaluation loss (without evaluations, the training loss) is this low.
  std::optional<double> target_loss;
  std::int64_t patience = 0;  ///< evaluations without improvement before stopping; 0 = off
  LrScheduleConfig lr_schedule;
  double ema_decay = 0;        ///< of the parameters' moving average; 0 = off
  bool deterministic = false;  ///< the same bits also for any number of threads
};

}  // namespace hgt
