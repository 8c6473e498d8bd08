#pragma once

#include <string>
#include <vector>

namespace hgt {

struct OptimizerConfig;

/// Names of the flat buffers that an optimizer keeps from update to update, in the order in which
/// Optimizer takes them. They are those of torch and DeepSpeed, and checkpoints use them too.
///
///   AdamW, Adam, Lamb       exp_avg, exp_avg_sq
///   Lion                    exp_avg
///   SGD with momentum       momentum_buffer
///   Adagrad                 sum
///
/// Error(kConfig) if the type is not built.
std::vector<std::string> optimizer_state(const OptimizerConfig& config);

}  // namespace hgt
