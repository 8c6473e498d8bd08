#include "hgtrain/config/model_family.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/config/model_config.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

constexpr Family kFamilies[] = {
    {.type = "gpt2",
     .architecture = "GPT2LMHeadModel",
     .lineage = Lineage::kGpt2,
     .rms_norm = false,
     .rope = false,
     .gated_mlp = false,
     .conv1d = true,
     .qkv_bias = Bias::kAlways,
     .attention_out_bias = Bias::kAlways,
     .mlp_bias = Bias::kAlways,
     .defaults = R"({"vocab_size": 50257, "max_position_embeddings": 1024, "hidden_size": 768,
                     "num_hidden_layers": 12, "num_attention_heads": 12, "hidden_act": "gelu_new",
                     "norm_eps": 1e-5, "embd_pdrop": 0.1, "resid_pdrop": 0.1, "attn_pdrop": 0.1,
                     "bos_token_id": 50256, "eos_token_id": 50256, "tie_word_embeddings": true})"},
    {.type = "llama",
     .architecture = "LlamaForCausalLM",
     .qkv_bias = Bias::kByKey,
     .attention_out_bias = Bias::kByKey,
     .mlp_bias = Bias::kByKey,
     .defaults = R"({"vocab_size": 32000, "max_position_embeddings": 2048, "hidden_size": 4096,
                     "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
                     "hidden_act": "silu", "norm_eps": 1e-6, "bos_token_id": 1, "eos_token_id": 2,
                     "tie_word_embeddings": false})"},
    {.type = "mistral",
     .architecture = "MistralForCausalLM",
     .windows = Windows::kAllLayers,
     .defaults = R"({"vocab_size": 32000, "max_position_embeddings": 131072, "hidden_size": 4096,
                     "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
                     "num_key_value_heads": 8, "hidden_act": "silu", "norm_eps": 1e-6,
                     "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": false})"},
    {.type = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .qkv_bias = Bias::kAlways,
     .windows = Windows::kByLayer,
     .defaults = R"({"vocab_size": 151936, "max_position_embeddings": 32768, "hidden_size": 4096,
                     "intermediate_size": 22016, "num_hidden_layers": 32, "num_attention_heads": 32,
                     "num_key_value_heads": 32, "hidden_act": "silu", "norm_eps": 1e-6,
                     "tie_word_embeddings": false})"},
    {.type = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .qk_norm = true,
     .qkv_bias = Bias::kByKey,
     .attention_out_bias = Bias::kByKey,
     .windows = Windows::kByLayer,
     .defaults = R"({"vocab_size": 151936, "max_position_embeddings": 32768, "hidden_size": 4096,
                     "intermediate_size": 22016, "num_hidden_layers": 32, "num_attention_heads": 32,
                     "num_key_value_heads": 32, "head_dim": 128, "hidden_act": "silu",
                     "norm_eps": 1e-6, "tie_word_embeddings": false})"},
};

/// `same_as` is the name that a config.json gets.
constexpr struct {
  const char *name, *same_as;
  Activation function;
} kActivations[] = {
    {"gelu_new", "gelu_new", Activation::kGeluTanh},
    {"gelu_fast", "gelu_new", Activation::kGeluTanh},
    {"gelu_accurate", "gelu_new", Activation::kGeluTanh},
    {"gelu_pytorch_tanh", "gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu_python_tanh", "gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu", "gelu", Activation::kGelu},
    {"gelu_python", "gelu", Activation::kGelu},
    {"relu", "relu", Activation::kRelu},
    {"silu", "silu", Activation::kSilu},
    {"swish", "silu", Activation::kSilu},
};

}  // namespace

std::span<const Family> families() {
  return kFamilies;
}

const Family& family_of(const std::string& model_type) {
  for (const Family& family : kFamilies)
    if (model_type == family.type) return family;
  throw Error(ErrorKind::kConfig, fmt::format("model_type \"{}\" is not supported", model_type),
              "use one of " + family_types());
}

const Family& family_of(const ModelConfig& model) {
  return family_of(model.model_type);
}

std::int64_t qkv_columns(const ModelConfig& model) {
  return (model.num_attention_heads + 2 * model.num_key_value_heads) * model.head_dim;
}

std::int64_t up_columns(const ModelConfig& model) {
  return (family_of(model).gated_mlp ? 2 : 1) * model.intermediate_size;
}

std::string family_types() {
  std::vector<std::string> types;
  for (const Family& family : kFamilies) types.emplace_back(family.type);
  return fmt::format("{}", fmt::join(types, ", "));
}

Json family_defaults(const Family& family) {
  return Json::parse(family.defaults);
}

std::string family_key(const Family& family, const std::string& key) {
  constexpr struct {
    Lineage lineage;
    std::string_view key;
    const char* own;
  } kOwnNames[] = {
      {Lineage::kGpt2, "hidden_size", "n_embd"},
      {Lineage::kGpt2, "intermediate_size", "n_inner"},
      {Lineage::kGpt2, "num_hidden_layers", "n_layer"},
      {Lineage::kGpt2, "num_attention_heads", "n_head"},
      {Lineage::kGpt2, "max_position_embeddings", "n_positions"},
      {Lineage::kGpt2, "hidden_act", "activation_function"},
      {Lineage::kGpt2, "norm_eps", "layer_norm_epsilon"},
      {Lineage::kLlama, "norm_eps", "rms_norm_eps"},
      {Lineage::kLlama, "attn_pdrop", "attention_dropout"},
  };
  for (const auto& name : kOwnNames)
    if (name.lineage == family.lineage && name.key == key) return name.own;
  return key;
}

Activation activation_of(const std::string& hidden_act) {
  std::vector<std::string> names;
  for (const auto& [name, same_as, function] : kActivations) {
    if (hidden_act == name) return function;
    names.emplace_back(name);
  }
  throw Error(ErrorKind::kConfig,
              fmt::format("model.hidden_act \"{}\" is not supported", hidden_act),
              fmt::format("use one of {}", fmt::join(names, ", ")));
}

std::string activation_name(const std::string& hidden_act) {
  for (const auto& [name, same_as, function] : kActivations)
    if (hidden_act == name) return same_as;
  return hidden_act;
}

std::vector<std::string> activations_of(const Family& family) {
  std::vector<std::string> names;
  for (const auto& [name, same_as, function] : kActivations) {
    const bool built = family.gated_mlp == (function == Activation::kSilu);
    if (built && std::string_view(name) == same_as) names.emplace_back(name);
  }
  return names;
}

}  // namespace hgt
