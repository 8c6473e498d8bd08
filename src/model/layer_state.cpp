#include "layer.h"

namespace hgt {
namespace {

NormState norm_state(const Activations& memory, const std::string& name, std::int64_t copy,
                     const ModelConfig& model, std::int64_t rows) {
  NormState out;
  out.out = memory.get(name, copy, {rows, model.hidden_size});
  if (!family_of(model).rms_norm) out.mean = memory.get(name + "_mean", copy, {rows});
  out.scale = memory.get(name + "_scale", copy, {rows});
  return out;
}

}  // namespace

LayerState::LayerState(const Activations& memory, std::int64_t copy, const ModelConfig& m,
                       const Pass& pass) {
  const std::int64_t rows = pass.rows(), heads = m.num_attention_heads,
                     keys = m.num_key_value_heads;
  norm1 = norm_state(memory, "norm1", copy, m, rows);
  qkv = memory.get("qkv", copy, {rows, (heads + 2 * keys) * m.head_dim});
  if (m.qk_norm) {
    qk = memory.get("qk", copy, {rows, (heads + keys) * m.head_dim});
    const Tensor scales = memory.get("qk_scale", copy, {(heads + keys) * rows});
    q_scale = scales.slice(0, 0, heads * rows).split(0, rows);
    k_scale = scales.slice(0, heads * rows, (heads + keys) * rows).split(0, rows);
  }
  attention = memory.get("attention", copy, {rows, heads * m.head_dim});
  lse = memory.get("lse", copy, {pass.batch, heads, pass.length});
  middle = memory.get("middle", copy, {rows, m.hidden_size});
  norm2 = norm_state(memory, "norm2", copy, m, rows);
  up = memory.get("up", copy, {rows, (family_of(m).gated_mlp ? 2 : 1) * m.intermediate_size});
  activated = memory.get("activated", copy, {rows, m.intermediate_size});
  output = memory.get("output", copy, {rows, m.hidden_size});
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
