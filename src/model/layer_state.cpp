#include "layer.h"

namespace hgt {

LayerState::LayerState(const BatchActivations& memory, std::int64_t layer, bool backward) {
  const auto get = [&](const char* name) { return memory.find_of_layer(name, layer); };
  const auto product_input = [&](const char* name, const char* recomputed) {
    const Tensor again = backward ? get(recomputed) : Tensor();
    return again ? again : get(name);
  };
  norm1 = {product_input("norm1", "recomputed norm1"), get("norm1_mean"), get("norm1_scale")};
  qkv = get("qkv");
  qk = get("qk");
  q_scale = get("q_scale");
  k_scale = get("k_scale");
  attention = product_input("attention", "recomputed attention");
  lse = get("lse");
  after_attention = get("after_attention");
  norm2 = {product_input("norm2", "recomputed norm2"), get("norm2_mean"), get("norm2_scale")};
  up = get("up");
  activated = product_input("activated", "recomputed activated");
  output = get("output");
}

LayerScratch::LayerScratch(const BatchActivations& memory)
    : branch(memory.get("branch")),
      d_norm(memory.get("d_norm")),
      d_attention(memory.get("d_attention")),
      d_qk(memory.find("d_qk")),
      d_activated(memory.find("d_activated")),
      keys_values(memory.find("keys_values")),
      d_keys_values(memory.find("d_keys_values")) {}

ProductGradients::ProductGradients(const BatchActivations& memory, std::int64_t layer)
    : qkv(memory.of_layer("d_qkv", layer)),
      out(memory.find_of_layer("d_out", layer)),
      up(memory.of_layer("d_up", layer)),
      down(memory.find_of_layer("d_down", layer)) {}

}  // namespace hgt
