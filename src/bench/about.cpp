#include "about.h"

#include <nlohmann/json.hpp>

#include "hgtrain/config/config.h"
#include "hgtrain/machine/resources.h"

namespace hgt {
namespace {

nlohmann::ordered_json gpu_name(const Stream& stream) {
  if (stream.device().is_cpu()) return nullptr;
  return stream.queue().properties().name;
}

}  // namespace

nlohmann::ordered_json about(const char* bench, const Config& config, const Stream& stream,
                             const std::string& attention) {
  const ModelConfig& m = config.model;
  return {{"bench", bench},
          {"cpu", cpu_name()},
          {"threads", config.hardware.threads},
          {"gpu", gpu_name(stream)},
          {"dtype", name_of(config.precision.compute_dtype())},
          {"model",
           {{"model_type", m.model_type},
            {"num_hidden_layers", m.num_hidden_layers},
            {"hidden_size", m.hidden_size},
            {"num_attention_heads", m.num_attention_heads},
            {"vocab_size", m.vocab_size}}},
          {"seq_length", config.training.seq_length},
          {"micro_batch_size", config.batch.micro_batch_size},
          {"attention",
           attention.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(attention)}};
}

}  // namespace hgt
