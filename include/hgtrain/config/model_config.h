#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hgt {

/// One of HF's `rope_scaling` types; `type` is empty if there is none.
struct RopeScaling {
  std::string type;  ///< "", "linear", "dynamic", "llama3", "yarn"
  double factor = 1.0;
  double low_freq_factor = 1.0;   // llama3
  double high_freq_factor = 4.0;  // llama3
  std::int64_t original_max_position_embeddings = 0;
  double beta_fast = 32.0;  // yarn
  double beta_slow = 1.0;   // yarn
  std::optional<double> attention_factor;
  std::optional<double> mscale;          // yarn
  std::optional<double> mscale_all_dim;  // yarn
  bool truncate = true;                  // yarn
};

/// Section `model`: the architecture under HF `config.json` names, both old and new spellings
/// already folded into one. All sizes are those of the unsplit, unpadded model.
struct ModelConfig {
  std::string model_type = "gpt2";  ///< Family::type
  std::int64_t vocab_size = 0;      ///< 0: taken from the tokenizer of the data
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;  ///< without GQA: num_attention_heads
  std::int64_t head_dim = 0;             ///< default: hidden_size / num_attention_heads
  std::int64_t max_position_embeddings = 0;
  std::string hidden_act;  ///< one of activations_of(family)
  double norm_eps = 1e-5;  ///< layer_norm_epsilon or rms_norm_eps
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  bool tie_word_embeddings = true;
  bool attention_bias = false;      ///< bias of q, k, v
  bool attention_out_bias = false;  ///< bias of the output projection
  bool mlp_bias = false;
  bool qk_norm = false;                     ///< RMSNorm on each head of q and k
  std::vector<std::int64_t> layer_windows;  ///< per layer: sliding window in tokens, 0 = full
  double initializer_range = 0.02;
  double embd_pdrop = 0.0;
  double resid_pdrop = 0.0;
  double attn_pdrop = 0.0;
  bool scale_attn_by_inverse_layer_idx = false;
  std::optional<std::int64_t> bos_token_id;
  std::optional<std::int64_t> eos_token_id;
  std::string init;  ///< HF model folder to take architecture and weights from, or ""
};

}  // namespace hgt
