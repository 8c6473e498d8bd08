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

/// The config of the run to which the checkpoint folder belongs; "" if it belongs to none.
std::string config_of_run(const std::string& checkpoint);

/// Reads and checks everything before anything starts, like make_train_plan. It uses only the flags
/// about the config, the workers and the devices.
///   model        HF folder, checkpoint or run that is evaluated instead of the config's model
///   data         token file that is evaluated instead of the config's validation data; "" = none
///   max_batches  of train_batch_size samples; 0 = all
EvalPlan make_eval_plan(const TrainFlags& flags, std::vector<std::string> overrides,
                        const std::string& model, const std::string& data,
                        std::int64_t max_batches);

}  // namespace hgt
