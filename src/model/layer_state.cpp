#include "layer.h"

namespace hgt {

LayerState::LayerState(const BatchActivations& memory, std::int64_t layer) {
  const auto get = [&](const std::string& name) {
    return memory.has(name) ? memory.of_layer(name, layer) : Tensor();
  };
  norm1 = {get("norm1"), get("norm1_mean"), get("norm1_scale")};
  qkv = get("qkv");
  qk = get("qk");
  q_scale = get("q_scale");
  k_scale = get("k_scale");
  attention = get("attention");
  lse = get("lse");
  after_attention = get("after_attention");
  norm2 = {get("norm2"), get("norm2_mean"), get("norm2_scale")};
  up = get("up");
  activated = get("activated");
  output = get("output");
}

LayerScratch::LayerScratch(const BatchActivations& memory) {
  const auto get = [&](const std::string& name) {
    return memory.has(name) ? memory.get(name) : Tensor();
  };
  branch = get("branch");
  d_norm = get("d_norm");
  d_attention = get("d_attention");
  d_qkv = get("d_qkv");
  d_qk = get("d_qk");
  d_up = get("d_up");
  d_activated = get("d_activated");
}

}  // namespace hgt
