#include "hgtrain/arch/activations.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "hgtrain/arch/gpu_scratch.h"
#include "hgtrain/config/config.h"
#include "hgtrain/config/model_family.h"

#include "times.h"

namespace hgt {

std::int64_t PlannedTensor::copies() const {
  std::int64_t out = has_shared_copy ? 1 : 0;
  for (const OfRange& range : of_ranges) out += range.copies();
  return out;
}

std::int64_t PlannedTensor::copy_of(std::size_t range, std::int64_t micro,
                                    std::int64_t layer) const {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < of_ranges.size(); ++i) {
    const auto& [slots, layers] = of_ranges[i];
    if (i == range && layer >= layers.begin && layer < layers.end)
      return first + micro % slots * layers.size() + layer - layers.begin;
    first += of_ranges[i].copies();
  }
  return has_shared_copy ? first : -1;
}

std::int64_t PlannedTensor::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n = times(n, size);
  return n;
}

std::int64_t PlannedTensor::bytes() const {
  return times(times(numel(), copies()), static_cast<std::int64_t>(size_of(dtype)));
}

std::int64_t partial_gradient_bytes(const std::vector<PartialGradients>& partial) {
  constexpr std::int64_t kAtOnce = 1 << 20;
  std::int64_t largest = 0, all = 0;
  for (const auto& [elements, parts] : partial) {
    const std::int64_t bytes = times(times(parts, elements.size()), kFloatBytes);
    largest = std::max(largest, bytes);
    all += bytes;
  }
  return std::max(largest, std::min(all, kAtOnce));
}

std::int64_t logit_rows(const ModelConfig& model, std::int64_t rows) {
  constexpr std::int64_t kLogits = std::int64_t{16} << 20;
  return std::clamp(kLogits / model.vocab_size, std::min<std::int64_t>(rows, 128), rows);
}

ActivationSizes activation_sizes(const Config& config) {
  ActivationSizes sizes{config.batch.micro_batch_size, config.training.seq_length, 1,
                        config.precision.compute_dtype()};
  const auto& [mode, layers] = config.recompute;
  if (mode == "none") return sizes;
  const std::int64_t all = config.model.num_hidden_layers;
  sizes.recompute = mode == "full" ? Recompute::kFull : Recompute::kSelective;
  sizes.recomputed_layers = layers == 0 ? all : std::min(layers, all);
  return sizes;
}

std::int64_t planned_logit_rows(const Config& config) {
  return config.hardware.device == "cuda" ? gpu_scratch(config).logit_rows : 0;
}

std::vector<ActivationSizes> activation_sizes(const Config& config, const StepShape& shape) {
  const std::vector<Range> ranges = shape.ranges();
  const std::vector<int> slots = shape.slots();
  std::vector<ActivationSizes> out(ranges.size(), activation_sizes(config));
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    out[i].slots = slots[i];
    out[i].tensor_size = config.parallelism.tensor_parallel_size;
    out[i].context_size = config.parallelism.context_parallel_size;
    out[i].split_rows = config.parallelism.sequence_parallel;
    out[i].blocks = ranges[i];
    out[i].split = shape.split();
    out[i].logit_rows = planned_logit_rows(config);
  }
  return out;
}

Range ActivationSizes::layers(const ModelConfig& model) const {
  if (blocks.size() == 0) return {0, model.num_hidden_layers};
  const std::int64_t first = std::max<std::int64_t>(blocks.begin - 1, 0);
  return {first, std::max(first, std::min(blocks.end - 1, model.num_hidden_layers))};
}

bool ActivationSizes::passes_through(const ModelConfig& model) const {
  return blocks.begin >= model.num_hidden_layers + 2;
}

bool ActivationSizes::has_head(const ModelConfig& model) const {
  return blocks.size() == 0 || blocks.end == model.num_hidden_layers + 2;
}

namespace {

bool is_recomputed(const std::string& name, const ActivationSizes& sizes) {
  if (sizes.recompute == Recompute::kFull) return name != "output";
  return sizes.recompute == Recompute::kSelective &&
         (name == "norm1" || name == "norm2" || name == "activated");
}

/// Whether the backward of a product's weights reads the activation.
bool is_product_input(const std::string& name) {
  return name == "norm1" || name == "attention" || name == "norm2" || name == "activated";
}

/// Adds the activations of one range of blocks to those of the ranges before.
void add_activations(const ModelConfig& m, const ActivationSizes& sizes, std::size_t range,
                     std::vector<PlannedTensor>& out) {
  const Family& family = family_of(m);
  const std::int64_t tokens = sizes.seq_length / sizes.context_size;  // of a sequence, on this rank
  const std::int64_t rows = times(sizes.batch, tokens), own = sizes.own_rows().size();
  const std::int64_t width = m.hidden_size;
  const std::int64_t q = m.num_attention_heads * m.head_dim, k = m.num_key_value_heads * m.head_dim;
  const std::int64_t qkv = qkv_columns(m), inner = m.intermediate_size, up = up_columns(m);

  const Range layers = sizes.layers(m);
  const bool has_head = sizes.has_head(m);
  const std::int64_t recomputed =
      std::clamp<std::int64_t>(sizes.recomputed_layers - layers.begin, 0, layers.size());
  PlannedTensor::Scope scope = PlannedTensor::Scope::kLayer;
  const auto plan = [&](DType dtype, const std::string& name,
                        const std::vector<std::int64_t>& shape,
                        const PlannedTensor::OfRange& of_range) {
    auto known = std::ranges::find(out, name, &PlannedTensor::name);
    if (known == out.end()) {
      out.push_back({name, shape, scope, dtype});
      known = std::prev(out.end());
    }
    known->of_ranges.resize(range + 1);
    known->of_ranges[range] = of_range;
    known->has_shared_copy |= of_range.layers.begin > 0 || scope == PlannedTensor::Scope::kShared;
  };
  const auto add_as = [&](DType dtype, const std::string& name,
                          const std::vector<std::int64_t>& shape) {
    PlannedTensor::OfRange of_range;
    if (scope != PlannedTensor::Scope::kShared) of_range.slots = sizes.slots;
    if (scope == PlannedTensor::Scope::kSlot) of_range.layers = {0, 1};
    if (scope == PlannedTensor::Scope::kLayer) {
      if (sizes.split && is_product_input(name)) of_range.slots = sizes.split.slots;
      of_range.layers = {is_recomputed(name, sizes) ? recomputed : 0, layers.size()};
    }
    plan(dtype, name, shape, of_range);
  };
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape,
                       bool needed = true) {
    if (needed) add_as(sizes.dtype, name, shape);
  };
  const auto add_f32 = [&](const std::string& name, const std::vector<std::int64_t>& shape,
                           bool needed = true) {
    if (needed) add_as(DType::kF32, name, shape);
  };
  if (sizes.passes_through(m)) {
    plan(sizes.dtype, "output", {own, width}, {sizes.slots, {0, 1}});
    scope = PlannedTensor::Scope::kSlot;
    add("embedded", {own, width});
    add("d_hidden", {own, width});
    return;
  }
  for (const std::string norm : {"norm1", "norm2"}) {
    add(norm, {own, width});
    add_f32(norm + "_mean", {own}, !family.rms_norm);
    add_f32(norm + "_scale", {own});
  }
  add("qkv", {rows, qkv});
  add("qk", {rows, q + k}, m.qk_norm);
  add_f32("q_scale", {rows, m.num_attention_heads}, m.qk_norm);
  add_f32("k_scale", {rows, m.num_key_value_heads}, m.qk_norm);
  add("attention", {rows, q});
  add_f32("lse", {sizes.batch, m.num_attention_heads, tokens});
  add("after_attention", {own, width});
  add("up", {rows, up});
  add("activated", {rows, inner});
  add("output", {own, width});

  if (sizes.split) {
    using Shape = std::vector<std::int64_t>;
    const auto keep = [&](const std::string& name, const Shape& shape, std::int64_t first_layers) {
      if (first_layers > 0)
        plan(sizes.dtype, name, shape, {sizes.split.between, {0, first_layers}});
    };
    const auto keep_recomputed = [&](const std::string& name, const Shape& shape) {
      keep("recomputed " + name, shape, is_recomputed(name, sizes) ? recomputed : 0);
    };
    keep_recomputed("norm1", {own, width});
    keep_recomputed("attention", {rows, q});
    keep_recomputed("norm2", {own, width});
    keep_recomputed("activated", {rows, inner});
    keep("d_qkv", {rows, qkv}, layers.size());
    keep("d_out", {rows, width}, layers.size());
    keep("d_up", {rows, up}, layers.size());
    keep("d_down", {rows, width}, layers.size());
  }

  scope = PlannedTensor::Scope::kSlot;
  add("embedded", {own, width});
  add("d_hidden", {own, width});
  add_f32("losses", {rows}, has_head);
  add_f32("final_mean", {own}, has_head && !family.rms_norm);
  add_f32("final_scale", {own}, has_head);
  add("d_final_norm", {own, width}, has_head);

  scope = PlannedTensor::Scope::kShared;
  const bool has_layers = layers.size() > 0;
  add("branch", {rows, width}, has_layers || sizes.blocks.begin == 0);
  add("d_norm", {rows, width}, has_layers);
  add("d_attention", {rows, q}, has_layers);
  add("d_qkv", {rows, qkv}, has_layers && !sizes.split);
  add("d_qk", {rows, q + k}, has_layers && m.qk_norm);
  add("d_up", {rows, up}, has_layers && !sizes.split);
  add("d_activated", {rows, inner}, has_layers && family.gated_mlp);
  add("final_norm", {rows, width}, has_head);
  const std::int64_t at_once =
      sizes.logit_rows > 0 ? std::min(sizes.logit_rows, rows) : logit_rows(m, rows);
  add("logits", {at_once, m.vocab_size}, has_head);
  add_f32("softmax_parts", {sizes.tensor_size, at_once, 3}, has_head && sizes.tensor_size > 1);
  for (const char* name : {"keys_values", "d_keys_values"})
    add(name, {sizes.batch, sizes.seq_length, 2 * m.num_key_value_heads, m.head_dim},
        has_layers && sizes.context_size > 1);
}

}  // namespace

std::vector<PlannedTensor> activations_of(const ModelConfig& model,
                                          const std::vector<ActivationSizes>& ranges) {
  std::vector<PlannedTensor> out;
  for (std::size_t range = 0; range < ranges.size(); ++range)
    add_activations(model, ranges[range], range, out);
  return out;
}

}  // namespace hgt
