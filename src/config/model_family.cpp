#include "hgtrain/config/model_family.h"

#include <nlohmann/json.hpp>

namespace hgt {

using Json = nlohmann::ordered_json;

Json family_defaults(const std::string& family) {
  if (family == "gpt2")
    return {{"vocab_size", 50257},        {"max_position_embeddings", 1024},
            {"hidden_size", 768},         {"num_hidden_layers", 12},
            {"num_attention_heads", 12},  {"hidden_act", "gelu_new"},
            {"norm_eps", 1e-5},           {"embd_pdrop", 0.1},
            {"resid_pdrop", 0.1},         {"attn_pdrop", 0.1},
            {"bos_token_id", 50256},      {"eos_token_id", 50256},
            {"tie_word_embeddings", true}};
  Json out = {{"hidden_size", 4096},  {"num_hidden_layers", 32}, {"num_attention_heads", 32},
              {"hidden_act", "silu"}, {"norm_eps", 1e-6},        {"tie_word_embeddings", false}};
  if (family == "llama" || family == "mistral")
    out.update({{"vocab_size", 32000}, {"bos_token_id", 1}, {"eos_token_id", 2}});
  if (family == "llama")
    out.update({{"intermediate_size", 11008}, {"max_position_embeddings", 2048}});
  if (family == "mistral")
    out.update({{"intermediate_size", 14336},
                {"num_key_value_heads", 8},
                {"max_position_embeddings", 131072}});
  if (family == "qwen2" || family == "qwen3")
    out.update({{"vocab_size", 151936},
                {"intermediate_size", 22016},
                {"num_key_value_heads", 32},
                {"max_position_embeddings", 32768}});
  if (family == "qwen3") out["head_dim"] = 128;
  return out;
}

std::string family_key(const std::string& family, const std::string& key) {
  constexpr std::pair<std::string_view, const char*> kGpt2[] = {
      {"hidden_size", "n_embd"},
      {"intermediate_size", "n_inner"},
      {"num_hidden_layers", "n_layer"},
      {"num_attention_heads", "n_head"},
      {"max_position_embeddings", "n_positions"}};
  if (family == "gpt2")
    for (const auto& [name, own] : kGpt2)
      if (name == key) return own;
  return key;
}

std::string activation_name(const std::string& name) {
  if (name == "swish") return "silu";
  if (name == "gelu_python") return "gelu";
  if (name == "gelu_fast" || name == "gelu_accurate") return "gelu_new";
  if (name == "gelu_python_tanh") return "gelu_pytorch_tanh";
  return name;
}

std::vector<std::string> activations_of(const std::string& family) {
  if (family == "gpt2") return {"gelu_new", "gelu_pytorch_tanh", "gelu", "relu"};
  return {"silu"};
}

}  // namespace hgt
