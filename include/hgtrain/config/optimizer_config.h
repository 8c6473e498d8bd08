#pragma once

#include <map>
#include <string>

namespace hgt {

struct OptimizerConfig {
  std::string type = "AdamW";  ///< AdamW, Adam, SGD, Adagrad, Lion, Lamb
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool bias_correction = true;
  bool adam_w_mode = true;
  // Parameters of SGD.
  double momentum = 0.0;
  double dampening = 0.0;
  bool nesterov = false;
  // Parameters of Lamb.
  double min_coeff = 0.01;
  double max_coeff = 10.0;
  bool eps_inside_sqrt = false;
};

/// Section `scheduler`, with DeepSpeed's names; type "" is a constant rate.
struct SchedulerConfig {
  std::string type;
  /// All parameters of the type, such as warmup_num_steps; flags are 0 or 1.
  std::map<std::string, double> numbers;
  std::string warmup_type = "log";
};

}  // namespace hgt
