#include "loaded.h"

using namespace hgt;

TEST_CASE("steps_per_print may be a float, Infinity or null") {
  CHECK(loaded(R"({"steps_per_print": 1e5})").config.steps_per_print == 100000);
  CHECK(loaded(R"({"steps_per_print": Infinity})").config.steps_per_print == 0);
  CHECK(loaded(R"({"steps_per_print": null})").config.steps_per_print == 1);
  CHECK(errors(R"({"steps_per_print": -Infinity})") != "");
  CHECK(errors(R"({"gradient_clipping": Infinity})") != "");
}

TEST_CASE("gradient_allreduce_op must be mean") {
  for (const char* mean : {"mean", "MEAN"})
    CHECK(problem_text(loaded(std::string(R"({"gradient_allreduce_op": ")") + mean + "\"}"),
                       Severity::kNotBuilt) == "");
  CHECK(problem_text(loaded(R"({"gradient_allreduce_op": "SUM"})"), Severity::kNotBuilt) != "");
  CHECK(contains(errors(R"({"gradient_allreduce_op": "max"})"), "is not known"));
}

TEST_CASE("gradients are sent in fp32, bf16 or, with a loss scale, fp16") {
  const auto type = [](const char* text) { return loaded(text).config.gradient_sum_dtype(); };
  CHECK(type("{}") == DType::kF32);
  CHECK(type(R"({"communication_data_type": "fp32"})") == DType::kF32);
  CHECK(type(R"({"communication_data_type": "bf16"})") == DType::kBF16);
  CHECK(type(R"({"communication_data_type": "fp16", "fp16": {"enabled": true}})") == DType::kF16);
  CHECK(errors(R"({"communication_data_type": "fp16", "fp16": {"enabled": true}})") == "");
  CHECK(errors(R"({"communication_data_type": "fp16", "fp16": {"enabled": "auto"}})") == "");
  for (const char* bf16 : {"false", "true"})
    CHECK(
        contains(errors(std::string(R"({"communication_data_type": "fp16", "bf16": {"enabled": )") +
                        bf16 + "}}"),
                 "communication_data_type = fp16 needs fp16.enabled"));
  CHECK(contains(errors(R"({"communication_data_type": "fp8"})"), "is not known"));
}

TEST_CASE("the type in which sequence-parallel workers sum has no effect if there are none") {
  CHECK(problem_text(loaded(R"({"seq_parallel_communication_data_type": "bf16"})"),
                     Severity::kNotBuilt) == "");
}

TEST_CASE("keys in the wrong place say where they belong") {
  CHECK(contains(errors(R"({"load_universal_checkpoint": true})"), "checkpoint.load_universal"));
  CHECK(contains(errors(R"({"max_grad_norm": 1.0})"), "did you mean gradient_clipping?"));
}

TEST_CASE("batch sizes are positive") {
  CHECK(contains(errors(R"({"train_batch_size": 0})"),
                 "train_batch_size = 0, but must be at least 1"));
  CHECK(contains(errors(R"({"train_batch_size": 1e18})"), "must be at most 1000000000"));
  CHECK(problem_text(loaded(R"({"managed_gradient_accumulation": false})"), Severity::kNotBuilt) !=
        "");
}
