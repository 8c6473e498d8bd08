#include "layer.h"

namespace hgt {

LayerState::LayerState(const BatchActivations& memory, std::int64_t layer) {
  const auto get = [&](const char* name) { return memory.find_of_layer(name, layer); };
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

LayerScratch::LayerScratch(const BatchActivations& memory)
    : branch(memory.get("branch")),
      d_norm(memory.get("d_norm")),
      d_attention(memory.get("d_attention")),
      d_qkv(memory.get("d_qkv")),
      d_qk(memory.find("d_qk")),
      d_up(memory.get("d_up")),
      d_activated(memory.find("d_activated")) {}

}  // namespace hgt
