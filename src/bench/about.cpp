#include "about.h"

#include <string>

#include <nlohmann/json.hpp>

#include "hgtrain/device/cuda_module.h"
#include "hgtrain/machine/resources.h"

namespace hgt {
namespace {

std::string gpu_name() {
  CudaDeviceProperties gpu;
  check(CudaModule::get().device().properties(0, &gpu));
  return gpu.name;
}

}  // namespace

nlohmann::ordered_json about(const char* bench, const Config& config) {
  const ModelConfig& m = config.model;
  const bool cuda = config.hardware.device == "cuda";
  return {{"bench", bench},
          {"cpu", cpu_name()},
          {"threads", config.hardware.threads},
          {"gpu", cuda ? nlohmann::ordered_json(gpu_name()) : nullptr},
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
