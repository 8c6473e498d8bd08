#include <fmt/format.h>

#include "loaded.h"

using namespace hgt;

TEST_CASE("sections that are switched off are accepted") {
  const LoadResult result = loaded(R"({
    "hybrid_engine": {"enabled": false, "max_out_tokens": 512}, "elasticity": {"enabled": false, "micro_batch_sizes": [2]},
    "compile": {"deepcompile": false, "passes": []}, "data_efficiency": {"enabled": false, "data_sampling": {"enabled": false}},
    "eigenvalue": {"enabled": false}, "progressive_layer_drop": {"enabled": false, "theta": 0.5}, "nebula": {"enabled": false},
    "compression_training": {"sparse_pruning": {"shared_parameters": {"enabled": false, "method": "l1"}, "different_groups": {}}}, "weight_quantization": {}, "datastates_ckpt": false, "expert_parallel": {"enabled": false},
    "quantize_training": {"enabled": false}})");
  CHECK(problem_text(result, Severity::kError) == "");
  CHECK(problem_text(result, Severity::kNotBuilt) == "");
}

TEST_CASE("a section that DeepSpeed has removed, and that would change the model, is refused") {
  CHECK(contains(errors(R"({"sparse_attention": {"mode": "fixed", "block": 16}})"),
                 "sparse_attention = {\"mode\":\"fixed\",\"block\":16} is not supported"));
  CHECK(errors(R"({"sparse_attention": null})") == "");
}

TEST_CASE("keys of DeepSpeed 0.19.8 are known") {
  const LoadResult result = loaded(
      R"({"tensor_parallel": {"vocab_parallel_ce_backend": "liger", "vocab_parallel_lm_head": true},
          "data_types": {"keep_in_fp32_modules": ["router"]}, "disable_python_gc": true,
          "compile": {"offload_activation": false}})");
  CHECK(problem_text(result, Severity::kError) == "");
  CHECK_FALSE(contains(problem_text(result, Severity::kNotice), "not known"));
}

TEST_CASE("sections that are switched on are reported as not built") {
  for (const char* section :
       {"hybrid_engine", "data_efficiency", "eigenvalue", "curriculum_learning",
        "progressive_layer_drop", "nebula", "expert_parallel", "quantize_training"})
    CHECK(contains(problem_text(loaded("{\"" + std::string(section) + R"(": {"enabled": true}})"),
                                Severity::kNotBuilt),
                   std::string(section) + ".enabled = true is not built yet"));
  CHECK(problem_text(loaded(R"({"compile": {"deepcompile": true}})"), Severity::kNotBuilt) != "");
  CHECK(contains(
      problem_text(loaded(R"({"compression_training": {"layer_reduction": {"enabled": true}}})"),
                   Severity::kNotBuilt),
      "compression_training.layer_reduction.enabled"));
  CHECK(problem_text(loaded(R"({"datastates_ckpt": true})"), Severity::kNotBuilt) != "");
}

TEST_CASE("DeepSpeed's names of the parallel sizes are understood") {
  CHECK(loaded(R"({"tensor_parallel": {"autotp_size": 2}})", 2)
            .config.parallelism.tensor_parallel_size == 2);
  CHECK(loaded(R"({"tensor_parallel": {"autotp_size": 0}})")
            .config.parallelism.tensor_parallel_size == 1);
  CHECK(loaded(R"({"tensor_parallel": {"tp": {"tp_size": 4}}})", 4)
            .config.parallelism.tensor_parallel_size == 4);
  CHECK(loaded(R"({"pipeline": {"stages": 2, "partition": "best"}})", 2)
            .config.parallelism.pipeline_parallel_size == 2);
  CHECK(loaded(R"({"pipeline": {"stages": "auto"}})").config.parallelism.pipeline_parallel_size ==
        1);
}

TEST_CASE("other ways to split a model than hgtrain's are refused with the key to use") {
  for (const char* partition : {"uniform", "parameters", "type:transformer"}) {
    const std::string text =
        fmt::format(R"({{"pipeline": {{"stages": 2, "partition": "{}"}}}})", partition);
    CHECK(contains(problem_text(loaded(text, 2), Severity::kNotBuilt),
                   "parallelism.pipeline_layer_split"));
  }
  CHECK(problem_text(loaded(R"({"pipeline": {"stages": 2, "partition": "best"}})", 2),
                     Severity::kNotBuilt) == "");
  CHECK(problem_text(loaded(R"({"pipeline": {"partition": "uniform"}})"), Severity::kNotBuilt) ==
        "");
  CHECK(contains(problem_text(loaded(R"({"pipeline": {"activation_checkpoint_interval": 1}})"),
                              Severity::kNotBuilt),
                 "activation_checkpointing.mode"));
  const std::string layers = R"("partition_config": {"layer_specs": []})";
  CHECK(
      contains(problem_text(loaded(R"({"tensor_parallel": {"autotp_size": 2, )" + layers + "}}", 2),
                            Severity::kNotBuilt),
               "parallelism.tensor_parallel_size splits every layer"));
  CHECK(problem_text(loaded(R"({"tensor_parallel": {)" + layers + "}}"), Severity::kNotBuilt) ==
        "");
  CHECK(contains(problem_text(loaded(R"({"sequence_parallel_size": 2, "train_batch_size": 2})", 2),
                              Severity::kNotBuilt),
                 "parallelism.context_parallel_size also shares each sequence"));
}
