#include "loaded.h"

using namespace hgt;

TEST_CASE("keys that do not go together are refused") {
  CHECK(contains(errors(R"({"fp16": {"enabled": true}, "bf16": {"enabled": true}})"),
                 "fp16 and bf16 are both enabled"));
  CHECK(contains(errors(R"({"gradient_allreduce_op": "sum", "zero_optimization": {"stage": 3}})"),
                 "does not go with ZeRO stage 3"));
  CHECK(contains(errors(R"({"prescale_gradients": true, "zero_optimization": {"stage": 1}})"),
                 "prescale_gradients does not go with"));
  CHECK(errors(R"({"prescale_gradients": true, "gradient_predivide_factor": 2})") == "");
  CHECK(contains(errors(R"({"gradient_predivide_factor": 2, "zero_optimization": {"stage": 2}})"),
                 "gradient_predivide_factor does not go with"));
  CHECK(contains(errors(R"({"zero_optimization": {"stage": 2}, "parallelism": {"pp": 2}})"),
                 "do not go with pipeline parallelism"));
  CHECK(contains(errors(R"({"data": {"valid_data_path": "v", "valid_fraction": 0.1}})"),
                 "are both given"));
}

TEST_CASE("max_grad_norm among the optimizer's parameters must be gradient_clipping") {
  const std::string optimizer =
      R"("optimizer": {"type": "Adam", "params": {"max_grad_norm": 1.0}})";
  CHECK(errors("{\"gradient_clipping\": 1.0, " + optimizer + "}") == "");
  CHECK(contains(errors("{\"gradient_clipping\": 0.5, " + optimizer + "}"),
                 "max_grad_norm = 1.0 is not gradient_clipping = 0.5 | set gradient_clipping"));
}

TEST_CASE("a rate that the schedule never reaches is told") {
  const LoadResult result = loaded(R"({"optimizer": {"type": "AdamW", "params": {"lr": 3e-4}},
      "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 20}}})");
  CHECK(contains(told(result, Severity::kNotice),
                 "the rate goes up to scheduler.params.warmup_max_lr = 0.001, not to "
                 "optimizer.params.lr = 0.0003"));
}

TEST_CASE("a sequence longer than GPT-2's positions is refused") {
  CHECK(contains(errors(R"({"model": {"model_type": "gpt2", "n_positions": 64},
                            "training": {"seq_length": 65}})"),
                 "training.seq_length = 65 is longer than model.max_position_embeddings = 64"));
}

TEST_CASE("betas lie below one") {
  CHECK(contains(errors(R"({"optimizer": {"type": "Adam", "params": {"betas": [0.9, 1]}}})"),
                 "must be less than 1"));
}

TEST_CASE("what is missing is told once, and not where it was given and refused") {
  const auto missing = [](const std::string& text) {
    return told(loaded(text), Severity::kMissing);
  };
  CHECK(contains(missing(R"({"train_batch_size": 8})"),
                 "training.train_iters and training.seq_length are missing"));
  CHECK(contains(missing(R"({"training": {"train_iters": 5}})"), "training.seq_length is missing"));
  CHECK_FALSE(contains(missing(R"({"train_batch_size": -8})"), "batch size"));
  CHECK_FALSE(
      contains(missing(R"({"training": {"train_iters": -5, "seq_length": 8}})"), "training."));
  CHECK_FALSE(contains(missing(R"({"data": {"train_data_path": [3]}})"), "data."));
}
