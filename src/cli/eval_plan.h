#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train_plan.h"

namespace hgt {

/// An evaluation ready to be started.
struct EvalPlan {
  Config config;  ///< resolved; model.init is the folder of the weights
  int workers = 1;
  std::int64_t samples = 0;  ///< that are evaluated
  std::vector<Problem> notices;
};

/// The config in the run folder that the checkpoint folder is of; "" if it is in none.
std::string config_of_run(const std::string& checkpoint);

/// Reads and checks everything before anything starts, like make_train_plan. Of `flags` it uses
/// those that say which config, which workers and which devices.
///   model        HF folder, checkpoint or run that is evaluated instead of the config's model
///   data         token file that is evaluated instead of the config's validation data; "" = none
///   max_batches  of train_batch_size samples; 0 = all
EvalPlan make_eval_plan(const TrainFlags& flags, std::vector<std::string> overrides,
                        const std::string& model, const std::string& data,
                        std::int64_t max_batches);

}  // namespace hgt
