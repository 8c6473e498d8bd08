#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/config/hf_config.h"

#include "loaded.h"
#include "support/temporary_folder.h"

using namespace hgt;

namespace {

ModelConfig inline_model(const std::string& keys) {
  const LoadResult result = loaded(R"({"model": {)" + keys + "}}");
  CHECK(problem_text(result, Severity::kError) == "");
  return result.config.model;
}

std::string model_errors(const std::string& keys) {
  return errors(R"({"model": {)" + keys + "}}");
}

ModelConfig file_model(const std::string& text) {
  const TemporaryFolder folder;
  write_new_file(folder / "config.json", text);
  return read_hf_config(folder.path());
}

std::string file_refusal(const std::string& text) {
  try {
    file_model(text);
  } catch (const Error& e) {
    return e.render();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a family's defaults are those of transformers") {
  const ModelConfig gpt2 = file_model(R"({"model_type": "gpt2"})");
  CHECK(gpt2.vocab_size == 50257);
  CHECK(gpt2.intermediate_size == 3072);
  CHECK(gpt2.hidden_act == "gelu_new");
  CHECK(gpt2.attn_pdrop == 0.1);
  CHECK(gpt2.attention_bias);
  CHECK(gpt2.tie_word_embeddings);
  CHECK(gpt2.eos_token_id == 50256);
  const ModelConfig llama = file_model(R"({"architectures": ["LlamaForCausalLM"]})");
  CHECK(llama.intermediate_size == 11008);
  CHECK(llama.num_key_value_heads == 32);
  CHECK(llama.norm_eps == 1e-6);
  CHECK_FALSE(llama.attention_bias);
  const ModelConfig mistral = file_model(R"({"model_type": "mistral"})");
  CHECK(mistral.num_key_value_heads == 8);
  CHECK(mistral.layer_windows == std::vector<std::int64_t>(32, 4096));
  CHECK(file_model(R"({"model_type": "mistral", "sliding_window": null})").layer_windows[0] == 0);
  const ModelConfig qwen2 = file_model(R"({"model_type": "qwen2"})");
  CHECK(qwen2.attention_bias);
  CHECK_FALSE(qwen2.attention_out_bias);
  CHECK(qwen2.layer_windows == std::vector<std::int64_t>(32, 0));
  const ModelConfig qwen3 = file_model(R"({"model_type": "qwen3"})");
  CHECK(qwen3.qk_norm);
  CHECK(qwen3.head_dim == 128);
}

TEST_CASE("without a model file, vocabulary and special tokens are the data's unless given") {
  const ModelConfig m = inline_model(R"("model_type": "gpt2", "n_embd": 64, "n_head": 4)");
  CHECK(m.vocab_size == 0);
  CHECK_FALSE(m.eos_token_id);
  CHECK(m.intermediate_size == 256);
  CHECK(inline_model(R"("model_type": "gpt2", "vocab_size": 99)").vocab_size == 99);
}

TEST_CASE("old and new spellings of an HF file mean the same") {
  const ModelConfig old_one =
      file_model(R"({"model_type": "llama", "rope_theta": 500000.0, "torch_dtype": "bfloat16",
      "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                       "original_max_position_embeddings": 8192},
      "eos_token_id": [128001, 128008], "pretraining_tp": 1, "mlp_bias": false})");
  const ModelConfig new_one =
      file_model(R"({"model_type": "llama", "dtype": "bfloat16", "eos_token_id": 128001,
      "rope_parameters": {"rope_theta": 500000.0, "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                          "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})");
  CHECK(hf_config_json(old_one) == hf_config_json(new_one));
  CHECK(old_one.rope_theta == 500000);
  CHECK(old_one.eos_token_id == 128001);
}

TEST_CASE("sliding windows are resolved for each layer") {
  const std::string qwen =
      R"("model_type": "qwen2", "num_hidden_layers": 4, "use_sliding_window": true, "sliding_window": 7)";
  using Windows = std::vector<std::int64_t>;
  CHECK(inline_model(qwen + R"(, "max_window_layers": 3)").layer_windows == Windows{0, 0, 0, 7});
  CHECK(inline_model(qwen).layer_windows == Windows(4, 0));  // max_window_layers is 28
  CHECK(
      inline_model(
          qwen +
          R"(, "layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"])")
          .layer_windows == Windows{7, 0, 0, 7});
  CHECK(contains(model_errors(qwen + R"(, "layer_types": ["full_attention"])"),
                 "names 1 layers of 4"));
  CHECK(contains(
      model_errors(
          R"("model_type": "qwen3", "num_hidden_layers": 1, "layer_types": ["sliding_attention"])"),
      "no window is set"));
  CHECK(contains(
      model_errors(
          R"("model_type": "qwen3", "num_hidden_layers": 1, "layer_types": ["linear_attention"])"),
      "\"linear_attention\" is not supported"));
  CHECK(file_model(R"({"model_type": "llama", "sliding_window": 5})").layer_windows[0] == 0);
}

TEST_CASE("in a model's own file only keys that change the computation are refused") {
  CHECK(
      file_model(
          R"({"model_type": "llama", "_name_or_path": "x", "some_new_key": 3, "num_experts": null})")
          .model_type == "llama");
  CHECK(contains(file_refusal(R"({"model_type": "gpt2", "scale_attn_weights": false})"),
                 "model.scale_attn_weights = false is not supported"));
  CHECK(
      file_refusal(
          R"({"model_type": "gpt2", "scale_attn_weights": true, "reorder_and_upcast_attn": true})") ==
      "accepted");
  CHECK(contains(file_refusal(R"({"model_type": "llama", "partial_rotary_factor": 0.5})"),
                 "partial_rotary_factor"));
  CHECK(contains(file_refusal(R"({"model_type": "llama", "num_local_experts": 8})"),
                 "mixture of experts"));
  CHECK(contains(file_refusal(R"({"model_type": "llama", "hidden_act": "gelu"})"),
                 "model.hidden_act = \"gelu\" is not supported for llama"));
  CHECK(contains(file_refusal(R"({"model_type": "llama", "rope_scaling": {"type": "su"}})"),
                 "model.rope_scaling: type"));
  CHECK(contains(file_refusal(R"({"model_type": "mixtral"})"), "hint: one of: gpt2, llama,"));
  CHECK(contains(file_refusal(R"({"model_type": "llama", "rope_scaling": "linear"})"),
                 "model.rope_scaling: must be an object"));
  CHECK(contains(file_refusal(R"({"hidden_size": 8})"), "model.model_type is missing"));
  CHECK(contains(file_refusal(R"({"architectures": ["GemmaForCausalLM"]})"),
                 R"(model.architectures = ["GemmaForCausalLM"] is not supported)"));
  // All that is wrong is said at once, also if the family is not known.
  const std::string all = model_errors(R"("model_type": "phi", "head_dim": "wide")");
  CHECK(contains(all, "model_type = \"phi\" is not known"));
  CHECK(contains(all, "model.head_dim must be"));
  CHECK(contains(file_refusal("{"), "the text ends inside an object"));
}

TEST_CASE("sizes must fit each other") {
  CHECK(contains(model_errors(R"("model_type": "gpt2", "n_embd": 50, "n_head": 4)"),
                 "model.n_head = 4 does not divide n_embd = 50"));
  CHECK(contains(
      model_errors(R"("model_type": "llama", "num_attention_heads": 8, "num_key_value_heads": 3)"),
      "model.num_key_value_heads = 3 does not divide num_attention_heads = 8"));
  CHECK(contains(model_errors(R"("model_type": "llama", "head_dim": 5)"), "is odd"));
  CHECK(contains(model_errors(R"("model_type": "gpt2", "num_key_value_heads": 3)"),
                 "as many key and value heads"));
  CHECK(contains(model_errors(R"("model_type": "gpt2", "head_dim": 32)"), "share n_embd"));
  CHECK(inline_model(
            R"("model_type": "llama", "hidden_size": 50, "num_attention_heads": 4, "head_dim": 6)")
            .head_dim == 6);
}

TEST_CASE("keys next to model.init must agree with the model of its weights") {
  const TemporaryFolder gpt2, llama;
  write_new_file(gpt2 / "config.json", R"({"model_type": "gpt2", "n_embd": 24, "n_head": 2,
      "n_layer": 2, "n_positions": 32, "vocab_size": 99})");
  write_new_file(llama / "config.json", R"({"model_type": "llama", "hidden_size": 64,
      "num_attention_heads": 4, "intermediate_size": 96, "num_hidden_layers": 2,
      "rope_parameters": {"rope_type": "default", "rope_theta": 7.0}})");
  const auto refusal = [](const TemporaryFolder& folder, const std::string& keys) {
    return errors(R"({"model": {"init": ")" + folder.path() + "\", " + keys + "}}");
  };
  CHECK(refusal(gpt2, R"("n_head": 2, "n_embd": 24, "attn_pdrop": 0.3, "embd_pdrop": 0,
      "initializer_range": 0.5, "eos_token_id": 5, "bos_token_id": 6)") == "");
  CHECK(
      refusal(gpt2, R"("n_head": 4)") ==
      "model.n_head = 4, but the weights in " + gpt2.path() +
          " are those of a model with n_head = 2 | leave it out: model.init takes the architecture "
          "from its folder\n");
  for (const char* key :
       {R"("num_heads_unknown": 1)", R"("num_attention_heads": 3)", R"("n_embd": 48)",
        R"("activation_function": "relu")", R"("layer_norm_epsilon": 1e-6)", R"("n_inner": 50)",
        R"("scale_attn_by_inverse_layer_idx": true)", R"("tie_word_embeddings": false)",
        R"("n_positions": 64)", R"("vocab_size": 100)", R"("model_type": "llama")"})
    CHECK(refusal(gpt2, key) != "");
  CHECK(
      refusal(llama, R"("model_type": "gpt2", "n_embd": 48, "activation_function": "gelu")") ==
      "model.model_type = \"gpt2\", but the weights in " + llama.path() +
          " are those of a model with model_type = \"llama\" | leave it out, and the other keys of "
          "its family: model.init takes the architecture from its folder\n");
  CHECK(refusal(llama, R"("num_key_value_heads": 4, "rope_theta": 7, "max_position_embeddings": 9,
      "attention_dropout": 0.5)") == "");
  for (const char* key :
       {R"("num_key_value_heads": 2)", R"("rope_theta": 8)", R"("rms_norm_eps": 1e-5)",
        R"("rope_scaling": {"rope_type": "linear", "factor": 2.0})", R"("attention_bias": true)",
        R"("mlp_bias": true)", R"("head_dim": 32)",
        R"("rope_parameters": {"rope_type": "default", "rope_theta": 9.0})"})
    CHECK(contains(refusal(llama, key), "but the weights in " + llama.path()));
  const TemporaryFolder mistral;
  write_new_file(mistral / "config.json", R"({"model_type": "mistral", "sliding_window": 8})");
  CHECK(contains(refusal(mistral, R"("sliding_window": 9)"), "sliding_window = 9, but"));
}

TEST_CASE("model.init of a run folder is its newest checkpoint") {
  const TemporaryFolder run;
  write_new_file(run / "config.json", "{}");
  make_folders(run / "checkpoints/step_00000003");
  const std::string model = R"({"model": {"init": ")" + run.path() + "\"}}";
  CHECK(contains(errors(model), "has no checkpoint yet"));
  write_new_file(run / "checkpoints/step_00000003/manifest.json", "{}");
  write_new_file(run / "checkpoints/step_00000003/config.json",
                 R"({"model_type": "gpt2", "n_embd": 24, "n_head": 2})");
  const LoadResult result = loaded(model);
  CHECK(problem_text(result, Severity::kError) == "");
  CHECK(result.config.model.hidden_size == 24);
  CHECK(result.config.model.init == run / "checkpoints/step_00000003");
}

TEST_CASE("a model may be a file or folder, and inline keys override it") {
  const TemporaryFolder folder;
  write_new_file(folder / "config.json",
                 R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
      "rope_parameters": {"rope_type": "default", "rope_theta": 7.0}, "made_up": 1})");
  for (const std::string& model : {"\"" + folder / "config.json\"", "\"" + folder.path() + "\"",
                                   R"({"config": ")" + folder.path() + "\"}"}) {
    const LoadResult result = loaded("{\"model\": " + model + "}", 1,
                                     {"model.num_hidden_layers", "3", "model.rope_theta", "9"});
    CHECK(problem_text(result, Severity::kError) == "");
    CHECK(result.config.model.hidden_size == 64);
    CHECK(result.config.model.vocab_size == 32000);
    CHECK(result.config.model.num_hidden_layers == 3);
    CHECK(result.config.model.rope_theta == 9);
  }
  const std::string nowhere = errors(R"({"model": "nowhere"})");
  CHECK(contains(nowhere, "cannot open nowhere/config.json"));
  CHECK(contains(nowhere, "hgtrain downloads nothing: name an HF config.json"));
  CHECK(
      contains(errors(R"({"model": {"init": "gpt2"}})"),
               "hgtrain downloads nothing: name a folder with config.json and model.safetensors"));
  CHECK_FALSE(contains(nowhere, "model_type"));
  CHECK(contains(errors(R"({"model": {"config": "a", "init": "b"}})"), "are both given"));
  CHECK(contains(errors(R"({"model": {"model_type": "gpt2", "n_layers": 2}})"),
                 "did you mean model.num_hidden_layers?"));
}
