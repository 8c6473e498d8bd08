#include "loaded.h"

using namespace hgt;

namespace {

LoadResult zero(const std::string& keys) {
  return loaded(R"({"zero_optimization": {)" + keys + "}}");
}

std::string zero_errors(const std::string& keys) {
  return problem_text(zero(keys), Severity::kError);
}

std::string zero_value(const std::string& keys, const std::string& key) {
  const LoadResult result = zero(keys);
  return problem_text(result, Severity::kError) + value(result, "zero_optimization." + key);
}

}  // namespace

TEST_CASE("counts of elements accept any spelling of a number") {
  for (const char* number : {"5e8", "500000000", "\"500000000\""})
    CHECK(zero_value(std::string("\"reduce_bucket_size\": ") + number, "reduce_bucket_size") ==
          "500000000");
  CHECK(zero_value(R"("stage3_prefetch_bucket_size": 15099494.4)", "stage3_prefetch_bucket_size") ==
        "15099494");
  CHECK(zero_value(R"("stage3_model_persistence_threshold": 1e19)",
                   "stage3_model_persistence_threshold") == "1e19");
  CHECK(contains(zero_errors(R"("reduce_bucket_size": -1)"), "is negative"));
  CHECK(contains(zero_errors(R"("reduce_bucket_size": true)"), "must be a whole number"));
  CHECK(zero_errors(R"("reduce_bucket_size": "auto")") == "");
}

TEST_CASE("stages are 0 to 3") {
  CHECK(zero_value(R"("stage": "2")", "stage") == "2");
  CHECK(zero_value(R"("stage": 2.0)", "stage") == "2");
  CHECK(contains(zero_errors(R"("stage": 4)"), "must be at most 3"));
  CHECK(contains(zero_errors(R"("stage": true)"), "must be a whole number"));
}

TEST_CASE("old and new names mean the same, but not both at once") {
  CHECK(zero_value(R"("max_live_parameters": 5)", "stage3_max_live_parameters") == "5");
  CHECK(zero_value(R"("stage3_gather_fp16_weights_on_model_save": true)",
                   "stage3_gather_16bit_weights_on_model_save") == "true");
  CHECK(zero_value(R"("cpu_offload": true)", "offload_optimizer.device") == "\"cpu\"");
  CHECK(zero_value(R"("cpu_offload_param": "true")", "offload_param.device") == "\"cpu\"");
  CHECK(zero_value(R"("cpu_offload": false)", "offload_optimizer.device") == "\"none\"");
  CHECK(contains(zero_errors(R"("stage3_max_live_parameters": 5, "max_live_parameters": 6)"),
                 "given twice"));
  CHECK(contains(zero_errors(R"("cpu_offload": true, "offload_optimizer": {"device": "none"})"),
                 "given twice"));
}

TEST_CASE("misspelt and misplaced keys are refused") {
  CHECK(contains(zero_errors(R"("stage3_param_persitence_threshold": 1)"),
                 "did you mean stage3_param_persistence_threshold?"));
  CHECK(contains(zero_errors(R"("aio": {}, "stage": 3)"), "move aio to the top level"));
  CHECK(contains(zero_errors(R"("offload_optimizer": "cpu")"), "must be an object"));
  CHECK(
      contains(zero_errors(R"("offload_optimizer": {"device": "gpu"})"), "= \"gpu\" is not known"));
  CHECK(contains(zero_errors(R"("legacy_stage1": true)"), "legacy_stage1 = true is not supported"));
  CHECK(contains(zero_errors(R"("stage": 2, "offload_optimizer": {"ratio": 0.3})"),
                 "needs ZeRO stage 3"));
  CHECK(contains(zero_errors(R"("zenflow": 123)"), "must be an object"));
}

TEST_CASE("sections that are off, null or empty have no effect") {
  const LoadResult result =
      zero(R"("offload_param": {"device": "none"}, "offload_optimizer": {}, "zenflow": null,
      "legacy_stage1": false, "grad_hooks": true, "zero_quantized_weights": false, "mics_shard_size": -1)");
  CHECK(problem_text(result, Severity::kError) == "");
  CHECK(problem_text(result, Severity::kNotBuilt) == "");
}

TEST_CASE("each key that is switched on and not built is reported, with what to do instead") {
  const LoadResult result =
      zero(R"("stage": 3, "offload_param": {"device": "nvme"}, "zero_hpz_partition_size": 8,
      "zero_quantized_weights": true, "zero_quantized_gradients": true, "mics_shard_size": 4,
      "mics_hierarchical_params_gather": true, "offload_optimizer": {"device": "cpu", "ratio": 0.5})");
  const std::string text = problem_text(result, Severity::kNotBuilt);
  for (const char* key :
       {"offload_param.device = \"nvme\" is not built yet | use \"cpu\", the CPU's memory",
        "zero_hpz_partition_size = 8", "zero_quantized_weights = true",
        "zero_quantized_gradients = true", "mics_shard_size = 4",
        "mics_hierarchical_params_gather = true", "offload_optimizer.ratio = 0.5"})
    CHECK(contains(text, key));
  for (const Problem& problem : result.problems)
    CHECK((problem.severity != Severity::kNotBuilt || problem.hint != ""));
}

TEST_CASE("a size that leaves no groups is accepted") {
  for (const char* keys : {R"("stage": 3, "mics_shard_size": 0, "zero_hpz_partition_size": 1)",
                           R"("stage": 3, "mics_shard_size": -1, "zero_hpz_partition_size": 0)"}) {
    CHECK(problem_text(zero(keys), Severity::kNotBuilt) == "");
    CHECK(zero_errors(keys) == "");
  }
}

TEST_CASE("keys that need a higher stage give a notice of that stage") {
  const auto notices = [](const char* keys) { return problem_text(zero(keys), Severity::kNotice); };
  CHECK(contains(notices(R"("stage": 2, "stage3_max_live_parameters": 2e9,
      "stage3_prefetch_bucket_size": 0, "offload_param": {"device": "cpu"},
      "zero_quantized_weights": true, "zero_quantized_gradients": false)"),
                 "these keys need ZeRO stage 3, and have no effect at stage 2: "
                 "zero_optimization.offload_param.device, "
                 "zero_optimization.stage3_max_live_parameters, "
                 "zero_optimization.stage3_prefetch_bucket_size, "
                 "zero_optimization.zero_quantized_weights |"));
  CHECK(contains(notices(R"("reduce_bucket_size": 2e8)"),
                 "need ZeRO stage 1, and have no effect at stage 0: "
                 "zero_optimization.reduce_bucket_size"));
  for (const char* keys :
       {R"("stage": 2, "stage3_prefetch_bucket_size": "auto")",
        R"("stage": 2, "offload_param": {"device": "none"}, "mics_shard_size": -1)",
        R"("stage": 3, "stage3_max_live_parameters": 2e9)",
        R"("stage": 2, "stage3_max_live_parameters": 1e9)",
        R"("stage": 1, "reduce_bucket_size": 2e8)"})
    CHECK_FALSE(contains(notices(keys), "need ZeRO stage"));
}

TEST_CASE("false and null switch offloading off") {
  for (const char* off : {"false", "null"}) {
    const std::string keys =
        std::string(R"("stage": 3, "offload_optimizer": )") + off + R"(, "offload_param": )" + off;
    CHECK(zero_errors(keys) == "");
    CHECK(zero_value(keys, "offload_optimizer.device") == "\"none\"");
  }
  CHECK(contains(zero_errors(R"("offload_optimizer": true)"), "must be an object"));
}

TEST_CASE("offloading outside zero_optimization is an error that says where it belongs") {
  for (const char* key : {"offload_optimizer", "offload_param"}) {
    const auto with = [&](const char* value) {
      return errors(std::string("{\"") + key + "\": " + value + "}");
    };
    CHECK(contains(with(R"({"device": "cpu"})"), "it belongs to zero_optimization"));
    CHECK(contains(with("true"), "it belongs to zero_optimization"));
    for (const char* off : {R"({"device": "none"})", "false", "null"}) CHECK(with(off) == "");
  }
  CHECK(contains(errors(R"({"zero_stage": 3})"), "did you mean zero_optimization.stage?"));
}

TEST_CASE("limits are DeepSpeed's unless they are given, and auto is its default") {
  const ZeroConfig zero_config =
      zero(R"("stage": 3, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": 0)")
          .config.zero;
  CHECK(zero_config.stage == 3);
  CHECK(zero_config.reduce_bucket_size == 500'000'000);
  CHECK(zero_config.allgather_bucket_size == 500'000'000);
  CHECK(zero_config.prefetch_bucket_size == 0);
  CHECK(zero_config.max_live_parameters == 1'000'000'000);
}

TEST_CASE("parameters are offloaded only at stage 3: below, the section has no effect") {
  const auto problems_of = [](const char* stage, Severity severity) {
    return problem_text(
        zero(std::string("\"stage\": ") + stage + R"(, "offload_param": {"device": "cpu"})"),
        severity);
  };
  for (const char* stage : {"0", "1", "\"2\""}) {
    CHECK_FALSE(contains(problems_of(stage, Severity::kNotBuilt), "offload_param"));
    CHECK(
        contains(problems_of(stage, Severity::kNotice), "zero_optimization.offload_param.device"));
  }
  CHECK(problems_of("3", Severity::kNotBuilt) == "");
  CHECK_FALSE(contains(problems_of("3", Severity::kNotice), "offload_param.device"));
}

TEST_CASE("keys that are new in DeepSpeed 0.19.8 are known") {
  CHECK(zero_errors(R"("stage": 1, "compute_grad_norm": true, "parameter_alignment": false)") ==
        "");
}
