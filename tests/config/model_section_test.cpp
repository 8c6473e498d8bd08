#include "loaded.h"

using namespace hgt;

TEST_CASE("the names of GPT-2, of the Llamas and of peers mean the same") {
  const auto json = [](const std::string& keys) {
    const LoadResult result = loaded(R"({"model": {)" + keys + "}}");
    CHECK(problem_text(result, Severity::kError) == "");
    return to_json(result.config)["model"];
  };
  CHECK(
      json(
          R"("model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_ctx": 32, "n_inner": 99,
                "activation_function": "gelu_fast", "layer_norm_epsilon": 1e-6)") ==
      json(R"("model_type": "gpt2", "hidden_size": 64, "num_layers": 2, "num_attention_heads": 4,
                "max_position_embeddings": 32, "ffn_hidden_size": 99, "hidden_act": "gelu_new", "norm_eps": 1e-6)"));
}

TEST_CASE("a whole config.json may be pasted in; unknown keys are refused") {
  CHECK(
      errors(
          R"({"model": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
      "transformers_version": "5.0", "use_cache": true, "pad_token_id": null, "quantization_config": null}})") ==
      "");
  CHECK(contains(errors(R"({"model": {"model_type": "llama", "logit_scale": 2}})"),
                 "model has no key logit_scale"));
}

TEST_CASE("sizes have bounds") {
  for (const char* keys : {R"("n_layer": 0)", R"("n_layer": 1000000)", R"("hidden_size": 1e12)",
                           R"("embd_pdrop": 1.0)", R"("norm_eps": 0)", R"("sliding_window": 0)",
                           R"("rope_theta": -1)"})
    CHECK(errors(std::string(R"({"model": {"model_type": "gpt2", )") + keys + "}}") != "");
}
