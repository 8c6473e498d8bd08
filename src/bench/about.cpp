#include "about.h"

#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

namespace hgt {
namespace {

/// "model name" of the first processor.
std::string cpu_name() {
  std::ifstream cpus("/proc/cpuinfo");
  for (std::string line; std::getline(cpus, line);)
    if (const std::size_t colon = line.find(": ");
        line.starts_with("model name") && colon != std::string::npos)
      return line.substr(colon + 2);
  return "unknown";
}

}  // namespace

nlohmann::ordered_json about(const char* bench, const Config& config) {
  const ModelConfig& m = config.model;
  return {{"bench", bench},
          {"cpu", cpu_name()},
          {"threads", config.hardware.threads},
          {"dtype", name_of(config.precision.compute_dtype())},
          {"model",
           {{"model_type", m.model_type},
            {"num_hidden_layers", m.num_hidden_layers},
            {"hidden_size", m.hidden_size},
            {"num_attention_heads", m.num_attention_heads},
            {"vocab_size", m.vocab_size}}},
          {"seq_length", config.training.seq_length},
          {"micro_batch_size", config.batch.micro_batch_size}};
}

}  // namespace hgt
