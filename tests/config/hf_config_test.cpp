#include "hgtrain/config/hf_config.h"

#include "hgtrain/base/file.h"

#include "loaded.h"
#include "support/temporary_folder.h"

using namespace hgt;
using Json = nlohmann::ordered_json;

TEST_CASE("what is written for transformers is read back the same") {
  const TemporaryFolder folder;
  const char* const models[] = {
      R"({"model_type": "gpt2", "n_embd": 48, "n_head": 4, "n_inner": 100, "activation_function": "relu",
          "scale_attn_by_inverse_layer_idx": true, "attn_pdrop": 0.25, "tie_word_embeddings": false})",
      R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "head_dim": 24, "attention_bias": true,
          "mlp_bias": true, "rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
          "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 128}})",
      R"({"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 2.0}})",
      R"({"model_type": "llama", "rope_scaling": {"type": "dynamic", "factor": 2.0}})",
      R"({"model_type": "mistral", "num_hidden_layers": 3, "sliding_window": 9})",
      R"({"model_type": "mistral", "num_hidden_layers": 3, "sliding_window": null})",
      R"({"model_type": "qwen2", "num_hidden_layers": 4, "use_sliding_window": true, "sliding_window": 7, "max_window_layers": 2,
          "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "mscale": 0.7,
          "mscale_all_dim": 1.0, "attention_factor": 1.1, "truncate": false}})",
      R"({"model_type": "qwen2", "num_hidden_layers": 3, "use_sliding_window": true, "sliding_window": 7,
          "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]})",
      R"({"model_type": "qwen3", "attention_bias": true, "num_key_value_heads": 8})"};
  for (const char* model : models) {
    const std::string path = folder / "config.json";
    write_file_atomically(path, model);
    const ModelConfig first = read_hf_config(path);
    const Json written = hf_config_json(first);
    INFO(written.dump());
    write_file_atomically(path, written.dump());
    const ModelConfig second = read_hf_config(folder.path());
    CHECK(hf_config_json(second) == written);
    CHECK(second.layer_windows == first.layer_windows);
    CHECK(second.attention_out_bias == first.attention_out_bias);
    CHECK(second.rope_scaling.attention_factor == first.rope_scaling.attention_factor);
  }
}
