#pragma once

#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/base/activation.h"

namespace hgt {

struct ModelConfig;

/// Whose names a family's parameters and the keys of its config.json have.
enum class Lineage { kGpt2, kLlama };

/// Whether products have a bias: kByKey if `attention_bias` or `mlp_bias` says so.
enum class Bias { kNever, kByKey, kAlways };

/// Which layers may have sliding attention: kByLayer as `layer_types` or `max_window_layers` say.
enum class Windows { kNone, kAllLayers, kByLayer };

/// A model family: how it computes, as in transformers' modeling_*.py.
struct Family {
  const char* type;          ///< `model_type`
  const char* architecture;  ///< its class in transformers
  Lineage lineage = Lineage::kLlama;
  bool rms_norm = true;   ///< else layer norm with bias
  bool rope = true;       ///< else learned positions
  bool gated_mlp = true;  ///< down(act(gate(x)) * up(x)), else down(act(up(x)))
  bool conv1d = false;    ///< weights of layers are [in, out] (GPT-2's Conv1D), else [out, in]
  bool qk_norm = false;   ///< RMSNorm on each head of q and k
  Bias qkv_bias = Bias::kNever;
  Bias attention_out_bias = Bias::kNever;
  Bias mlp_bias = Bias::kNever;
  Windows windows = Windows::kNone;
  /// What its config class in transformers has for keys that a config.json leaves out: JSON, with
  /// the names of our section `model`.
  const char* defaults;
};

/// The families that are built.
std::span<const Family> families();

/// The family of a model_type. Error(kConfig) if it is not built.
const Family& family_of(const std::string& model_type);
const Family& family_of(const ModelConfig& model);

/// The columns of a block's first two products: queries, keys and values side by side, and what
/// goes into the activation function, beside the gate if there is one.
std::int64_t qkv_columns(const ModelConfig& model);
std::int64_t up_columns(const ModelConfig& model);

/// The types of all families, "gpt2, llama, ...", for hints.
std::string family_types();

/// Family::defaults, parsed.
nlohmann::ordered_json family_defaults(const Family& family);

/// The name that the family's config.json has for a key of our section `model`: "n_head" is GPT-2's
/// for "num_attention_heads".
std::string family_key(const Family& family, const std::string& key);

/// The function that a `hidden_act` names. Error(kConfig) if it is not built.
Activation activation_of(const std::string& hidden_act);
/// One name for each activation function that has several names in transformers.
std::string activation_name(const std::string& hidden_act);
/// The values of `hidden_act` that are built for the family.
std::vector<std::string> activations_of(const Family& family);

}  // namespace hgt
