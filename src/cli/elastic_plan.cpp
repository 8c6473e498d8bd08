#include "elastic_plan.h"

#include <string>

#include "hgtrain/base/error.h"

namespace hgt {
namespace {

/// If the config gives a number of micro-batches, it holds for the first attempt's workers only.
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
  flags.config = config_.given_path();  // it includes the other flags that set keys
  flags.config_text.reset();
  flags.steps.reset();
  flags.device.clear();
  flags.world = hosts;
  flags.batch_size = first_.config.batch.train_batch_size;
  return make_train_plan(flags, kOverrides);
}

}  // namespace hgt
