#include "hgtrain/config/hf_config.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/config/config.h"
#include "hgtrain/config/model_family.h"

#include "document.h"
#include "field.h"
#include "value.h"

namespace hgt {

namespace {

using Json = nlohmann::ordered_json;

void add_gpt2(Json& out, const ModelConfig& m) {
  out["embd_pdrop"] = m.embd_pdrop;
  out["resid_pdrop"] = m.resid_pdrop;
  out["scale_attn_by_inverse_layer_idx"] = m.scale_attn_by_inverse_layer_idx;
}

Json rope_scaling_of(const RopeScaling& scaling) {
  if (scaling.type.empty()) return nullptr;
  Json out{{"rope_type", scaling.type}, {"factor", scaling.factor}};
  if (scaling.original_max_position_embeddings > 0)
    out["original_max_position_embeddings"] = scaling.original_max_position_embeddings;
  if (scaling.type == "llama3") {
    out["low_freq_factor"] = scaling.low_freq_factor;
    out["high_freq_factor"] = scaling.high_freq_factor;
  } else if (scaling.type == "yarn") {
    out["beta_fast"] = scaling.beta_fast;
    out["beta_slow"] = scaling.beta_slow;
    out["truncate"] = scaling.truncate;
    if (scaling.mscale) out["mscale"] = *scaling.mscale;
    if (scaling.mscale_all_dim) out["mscale_all_dim"] = *scaling.mscale_all_dim;
  }
  if (scaling.attention_factor) out["attention_factor"] = *scaling.attention_factor;
  return out;
}

void add_windows(Json& out, const ModelConfig& m, Windows windows) {
  const auto first = std::find_if(m.layer_windows.begin(), m.layer_windows.end(),
                                  [](std::int64_t window) { return window > 0; });
  const bool sliding = first != m.layer_windows.end();
  out["sliding_window"] = sliding ? Json(*first) : Json(nullptr);
  if (windows == Windows::kAllLayers) return;
  out["use_sliding_window"] = sliding;
  out["max_window_layers"] = sliding ? first - m.layer_windows.begin() : m.num_hidden_layers;
  for (const std::int64_t window : m.layer_windows)
    out["layer_types"].push_back(window > 0 ? "sliding_attention" : "full_attention");
}

void add_llama(Json& out, const ModelConfig& m, const Family& family) {
  out["num_key_value_heads"] = m.num_key_value_heads;
  out["head_dim"] = m.head_dim;
  out["rope_theta"] = m.rope_theta;
  out["rope_scaling"] = rope_scaling_of(m.rope_scaling);
  if (family.qkv_bias == Bias::kByKey) out["attention_bias"] = m.attention_bias;
  if (family.mlp_bias == Bias::kByKey) out["mlp_bias"] = m.mlp_bias;
  if (family.windows != Windows::kNone) add_windows(out, m, family.windows);
}

/// The value for a key that is another spelling of a model key ("n_ctx"); null if it is not one.
Json value_of(const std::string& key, const ModelConfig& model) {
  Config config;
  config.model = model;
  for (const Field& field : find_field("model")->fields)
    if (field.slot && (field.name == key || std::ranges::count(field.aliases, key) > 0))
      return load(field, config);
  return nullptr;
}

}  // namespace

Json hf_config_json(const ModelConfig& m, DType weights) {
  const Family& family = family_of(m);
  Json out{{"architectures", {family.architecture}},
           {"model_type", m.model_type},
           {"vocab_size", m.vocab_size}};
  const auto set = [&](const char* key, const auto& value) {
    out[family_key(family, key)] = value;
  };
  set("max_position_embeddings", m.max_position_embeddings);
  set("hidden_size", m.hidden_size);
  set("intermediate_size", m.intermediate_size);
  set("num_hidden_layers", m.num_hidden_layers);
  set("num_attention_heads", m.num_attention_heads);
  set("hidden_act", m.hidden_act);
  set("norm_eps", m.norm_eps);
  set("attn_pdrop", m.attn_pdrop);
  family.lineage == Lineage::kGpt2 ? add_gpt2(out, m) : add_llama(out, m, family);
  out["initializer_range"] = m.initializer_range;
  out["tie_word_embeddings"] = m.tie_word_embeddings;
  out["bos_token_id"] = m.bos_token_id ? Json(*m.bos_token_id) : Json(nullptr);
  out["eos_token_id"] = m.eos_token_id ? Json(*m.eos_token_id) : Json(nullptr);
  out["torch_dtype"] = weights == DType::kBF16  ? "bfloat16"
                       : weights == DType::kF16 ? "float16"
                                                : "float32";
  out["use_cache"] = true;
  return out;
}

Json hf_config_json(const ModelConfig& m, DType weights, const std::string& source_text) {
  Json out = read_document(source_text, "config.json").root;
  const Json now = hf_config_json(m, weights),
             before = hf_config_json(parse_hf_config(source_text, "config.json"), weights);
  out.erase("rope_parameters");  // versions 4 and 5 both read rope_theta and rope_scaling
  for (auto& [key, value] : out.items())
    if (const Json changed = now.contains(key) ? Json() : value_of(key, m); !changed.is_null())
      value = changed;
  for (const auto& [key, value] : now.items())
    if (!out.contains(key) || !before.contains(key) || value != before[key]) out[key] = value;
  out["torch_dtype"] = now["torch_dtype"];
  if (out.contains("dtype")) out["dtype"] = now["torch_dtype"];
  return out;
}

}  // namespace hgt
