#include "elastic_plan.h"

#include <string>

#include "hgtrain/base/error.h"

namespace hgt {
namespace {

/// A number of micro-batches that the config gives is that of the first attempt's workers.
const std::vector<std::string> kOverrides{"gradient_accumulation_steps", "auto"};

}  // namespace

bool ElasticPlan::is_valid(int workers) const {
  try {
    load_config(config_.given_path(), {kOverrides, workers, first_.config.batch.train_batch_size})
        .throw_unless_trainable();
    return true;
  } catch (const Error&) {
    return false;
  }
}

TrainPlan ElasticPlan::plan_on(const std::vector<JobHost>& hosts) const {
  TrainFlags flags = flags_;
  flags.config = config_.given_path();  // where other flags for keys are filled in
  flags.config_text.reset();
  flags.steps.reset();
  flags.device.clear();
  flags.world = hosts;
  flags.batch_size = first_.config.batch.train_batch_size;
  return make_train_plan(flags, kOverrides);
}

}  // namespace hgt
