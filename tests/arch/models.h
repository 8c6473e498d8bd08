#pragma once

#include "hgtrain/arch/memory.h"
#include "hgtrain/config/config.h"

/// GPT-2 124M.
inline hgt::ModelConfig gpt2_124m() {
  hgt::ModelConfig m;
  m.model_type = "gpt2";
  m.vocab_size = 50257;
  m.hidden_size = 768;
  m.intermediate_size = 3072;
  m.num_hidden_layers = 12;
  m.num_attention_heads = m.num_key_value_heads = 12;
  m.head_dim = 64;
  m.max_position_embeddings = 1024;
  m.hidden_act = "gelu_new";
  m.attention_bias = m.attention_out_bias = m.mlp_bias = true;
  return m;
}

/// Llama 3 8B.
inline hgt::ModelConfig llama3_8b() {
  hgt::ModelConfig m;
  m.model_type = "llama";
  m.vocab_size = 128256;
  m.hidden_size = 4096;
  m.intermediate_size = 14336;
  m.num_hidden_layers = 32;
  m.num_attention_heads = 32;
  m.num_key_value_heads = 8;
  m.head_dim = 128;
  m.max_position_embeddings = 8192;
  m.hidden_act = "silu";
  m.tie_word_embeddings = false;
  return m;
}

/// The memory of a step with one thread.
inline std::int64_t bytes_of(const hgt::Config& config) {
  return hgt::total_bytes(hgt::memory_table(config, 1));
}
