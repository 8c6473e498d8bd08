#include "hgtrain/config/hf_config.h"

#include "hgtrain/base/file.h"
#include "hgtrain/base/json.h"

#include "loaded.h"
#include "support/temporary_folder.h"

using namespace hgt;
using Json = nlohmann::ordered_json;

TEST_CASE("a config.json that was written is read back the same") {
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

TEST_CASE("a model that came from a folder keeps the keys and spellings of its config.json") {
  const std::string source =
      R"({"_name_or_path": "x/y", "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
          "num_attention_heads": 4, "hidden_act": "swish", "rope_theta": 500000.0,
          "rope_scaling": {"type": "linear", "factor": 2.0}, "eos_token_id": [1, 2, 3], "bos_token_id": 0,
          "pad_token_id": 9, "use_cache": false, "attention_dropout": 0.25, "made_up": {"a": [1]},
          "dtype": "bfloat16", "torch_dtype": "bfloat16", "transformers_version": "4.40.0"})";
  ModelConfig model = parse_hf_config(source, "config.json");
  Json expected = parse_json<Json>(source);
  expected["dtype"] = expected["torch_dtype"] = "float16";
  Json kept = hf_config_json(model, DType::kF16, source);
  for (const auto& [key, value] : expected.items()) CHECK(kept[key] == value);
  CHECK(kept["num_hidden_layers"] == 32);

  model.attn_pdrop = 0;
  model.eos_token_id = 5;
  kept = hf_config_json(model, DType::kF32, source);
  CHECK(kept["attention_dropout"] == 0);
  CHECK(kept["eos_token_id"] == 5);
  CHECK(kept["rope_scaling"] == expected["rope_scaling"]);
}

TEST_CASE(
    "other spellings in a folder are written so that versions 4 and 5 of transformers read them") {
  const std::string gpt2 =
      R"({"model_type": "gpt2", "n_ctx": 32, "n_positions": 32, "n_inner": null})";
  ModelConfig model = parse_hf_config(gpt2, "config.json");
  Json kept = hf_config_json(model, DType::kF32, gpt2);
  CHECK(kept["n_inner"].is_null());
  CHECK(kept["n_ctx"] == 32);
  model.max_position_embeddings = 64;
  kept = hf_config_json(model, DType::kF32, gpt2);
  CHECK(kept["n_ctx"] == 64);
  CHECK(kept["n_positions"] == 64);
  const std::string llama =
      R"({"model_type": "llama", "rope_parameters": {"rope_type": "linear", "rope_theta": 7.0, "factor": 2.0}})";
  kept = hf_config_json(parse_hf_config(llama, "config.json"), DType::kF32, llama);
  CHECK_FALSE(kept.contains("rope_parameters"));
  CHECK(kept["rope_theta"] == 7.0);
  CHECK(kept["rope_scaling"]["factor"] == 2.0);
  CHECK_THROWS_AS(hf_config_json(model, DType::kF32, "[]"), Error);
}
