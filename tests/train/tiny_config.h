#pragma once

#include "hgtrain/config/config.h"

namespace hgt {

/// A job with a GPT-2 of one layer.
inline Config tiny_config() {
  Config config;
  ModelConfig& model = config.model;
  model.vocab_size = 16;
  model.hidden_size = 8;
  model.intermediate_size = 32;
  model.num_hidden_layers = 1;
  model.num_attention_heads = model.num_key_value_heads = 2;
  model.head_dim = 4;
  model.max_position_embeddings = 8;
  model.hidden_act = "gelu_new";
  model.attention_bias = model.attention_out_bias = model.mlp_bias = true;
  config.checkpoint.async_save = false;
  config.hardware.threads = 1;
  return config;
}

}  // namespace hgt
