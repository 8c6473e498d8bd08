#include "layer.h"

namespace hgt {
namespace {

using Shape = std::initializer_list<std::int64_t>;

}  // namespace

LayerState::LayerState(const Activations& memory, std::int64_t slot, std::int64_t layer,
                       const ModelConfig& m, const Pass& pass) {
  const std::int64_t rows = pass.rows(), heads = m.num_attention_heads,
                     keys = m.num_key_value_heads;
  const auto get = [&](const std::string& name, Shape shape) {
    return memory.of_layer(name, slot, layer, shape);
  };
  const auto norm = [&](const std::string& name) {
    NormState out;
    out.out = get(name, {rows, m.hidden_size});
    if (!family_of(m).rms_norm) out.mean = get(name + "_mean", {rows});
    out.scale = get(name + "_scale", {rows});
    return out;
  };
  norm1 = norm("norm1");
  qkv = get("qkv", {rows, (heads + 2 * keys) * m.head_dim});
  if (m.qk_norm) {
    qk = get("qk", {rows, (heads + keys) * m.head_dim});
    const Tensor scales = get("qk_scale", {(heads + keys) * rows});
    q_scale = scales.slice(0, 0, heads * rows).split(0, rows);
    k_scale = scales.slice(0, heads * rows, (heads + keys) * rows).split(0, rows);
  }
  attention = get("attention", {rows, heads * m.head_dim});
  lse = get("lse", {pass.batch, heads, pass.length});
  after_attention = get("after_attention", {rows, m.hidden_size});
  norm2 = norm("norm2");
  up = get("up", {rows, (family_of(m).gated_mlp ? 2 : 1) * m.intermediate_size});
  activated = get("activated", {rows, m.intermediate_size});
  output = get("output", {rows, m.hidden_size});
}

LayerScratch::LayerScratch(const Activations& memory, const ModelConfig& m, const Pass& pass) {
  const std::int64_t rows = pass.rows(), heads = m.num_attention_heads,
                     keys = m.num_key_value_heads;
  const bool gated = family_of(m).gated_mlp;
  branch = memory.get("branch", 0, {rows, m.hidden_size});
  d_norm = memory.get("d_norm", 0, {rows, m.hidden_size});
  d_attention = memory.get("d_attention", 0, {rows, heads * m.head_dim});
  d_qkv = memory.get("d_qkv", 0, {rows, (heads + 2 * keys) * m.head_dim});
  if (m.qk_norm) d_qk = memory.get("d_qk", 0, {rows, (heads + keys) * m.head_dim});
  d_up = memory.get("d_up", 0, {rows, (gated ? 2 : 1) * m.intermediate_size});
  if (gated) d_activated = memory.get("d_activated", 0, {rows, m.intermediate_size});
}

}  // namespace hgt
