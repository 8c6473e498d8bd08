#include "loaded.h"

using namespace hgt;

namespace {

LoadResult optimizer(const std::string& type, const std::string& params) {
  return loaded(R"({"optimizer": {"type": ")" + type + R"(", "params": {)" + params + "}}}");
}

std::string scheduler_errors(const std::string& type, const std::string& params) {
  return errors(R"({"scheduler": {"type": ")" + type + R"(", "params": {)" + params + "}}}");
}

}  // namespace

TEST_CASE("Adam and AdamW are recognised in any case") {
  const Config c =
      optimizer("adam", R"("lr": 1e-4, "adam_w_mode": false, "betas": [0.8, 0.9])").config;
  CHECK(c.optimizer.type == "Adam");
  CHECK_FALSE(c.optimizer.adam_w_mode);
  CHECK(c.optimizer.beta1 == 0.8);
  CHECK(problem_text(optimizer("AdamW", R"("adam_w_mode": false)"), Severity::kError) == "");
  CHECK(optimizer("AdamW", R"("adam_w_mode": false)").config.optimizer.adam_w_mode);
  CHECK(problem_text(optimizer("Adam", R"("amsgrad": true)"), Severity::kNotBuilt) != "");
  CHECK(contains(problem_text(optimizer("Adam", R"("lrr": 1)"), Severity::kError),
                 "did you mean lr?"));
  CHECK(contains(problem_text(optimizer("Adam", R"("betas": [0.9])"), Severity::kError),
                 "a list of two numbers"));
}

TEST_CASE("each optimizer has its own parameters and defaults") {
  for (const char* type : {"lamb", "lion", "sgd", "adagrad"}) {
    const LoadResult result = optimizer(type, R"("weight_decay": 0.1)");
    CHECK(problem_text(result, Severity::kError) == "");
    CHECK(problem_text(result, Severity::kNotBuilt) == "");
    CHECK(result.config.optimizer.weight_decay == 0.1);
    const bool adagrad = result.config.optimizer.type == "Adagrad";
    CHECK(result.config.optimizer.lr == (adagrad ? 0.01 : 1e-3));
    CHECK(result.config.optimizer.eps == (adagrad ? 1e-10 : 1e-8));
  }
  CHECK(optimizer("Adagrad", R"("lr": 0.5, "eps": 1e-3)").config.optimizer.eps == 1e-3);
  const OptimizerConfig sgd =
      optimizer("SGD", R"("momentum": 0.9, "nesterov": true)").config.optimizer;
  CHECK(sgd.momentum == 0.9);
  CHECK(sgd.nesterov);
  const OptimizerConfig lamb =
      optimizer("LAMB", R"("max_coeff": 0.3, "eps_inside_sqrt": true)").config.optimizer;
  CHECK(lamb.max_coeff == 0.3);
  CHECK(lamb.eps_inside_sqrt);
  CHECK(contains(problem_text(optimizer("SGD", R"("betas": [0.9, 0.9])"), Severity::kError),
                 "optimizer.params of type SGD has no betas"));
  CHECK(contains(problem_text(optimizer("AdamW", R"("momentum": 0.9)"), Severity::kError),
                 "it belongs to SGD"));
  CHECK(contains(problem_text(optimizer("Adam", R"("eps": 0)"), Severity::kError),
                 "must be at least 1e-30"));
  const LoadResult written = loaded(to_json(optimizer("Adagrad", "").config).dump());
  CHECK(written.config.optimizer.lr == 0.01);
}

TEST_CASE("other optimizers are not built, and their parameters are not checked") {
  const LoadResult muon = optimizer("Muon", R"("lr": 0.1, "muon_lr": 0.1)");
  CHECK(problem_text(muon, Severity::kError) == "");
  CHECK(contains(problem_text(muon, Severity::kNotBuilt), "optimizer.type"));
  for (const char* type : {"OneBitAdam", "OnebitAdam", "ZeroOneAdam", "OneBitLamb"})
    CHECK(contains(problem_text(optimizer(type, R"("freeze_step": 10)"), Severity::kNotBuilt),
                   "| use "));
  CHECK(problem_text(optimizer("Adam", R"("freeze_step": 10)"), Severity::kError) != "");
  CHECK_FALSE(contains(problem_text(optimizer("Adafactor", R"("lr": 1)"), Severity::kError), "lr"));
  CHECK(scheduler_errors("CosineAnnealingLR", R"("T_max": 10)") == "");
  CHECK(
      contains(problem_text(optimizer("Adafactorr", ""), Severity::kError), "one of: AdamW, Adam"));
}

TEST_CASE("parameters of the schedules have their ranges") {
  CHECK(scheduler_errors("warmuplr", R"("warmup_num_steps": 0)") == "");
  CHECK(contains(scheduler_errors("WarmupLR", R"("warmup_num_steps": -5)"), "is negative"));
  const std::string ends = R"("cycle_min_lr": 0, "cycle_max_lr": 1, )";
  for (const char* wrong : {R"("cycle_first_step_size": 0)", R"("cycle_first_step_size": -1)",
                            R"("cycle_first_step_size": 100, "cycle_second_step_size": -1)"})
    CHECK(scheduler_errors("OneCycle", ends + wrong) != "");
  CHECK(scheduler_errors("OneCycle",
                         ends + R"("cycle_first_step_size": 100, "cycle_second_step_size": 0)") ==
        "");
  for (const char* wrong : {"0", "-5"})
    CHECK(scheduler_errors("LRRangeTest", std::string("\"lr_range_test_step_size\": ") + wrong) !=
          "");
  CHECK(contains(scheduler_errors("WarmupDecay", ""), "did you mean \"WarmupDecayLR\"?"));
}

TEST_CASE("a warmup of an unknown shape is logarithmic, with a notice") {
  const LoadResult result =
      loaded(R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_type": "cosine"}}})");
  CHECK(problem_text(result, Severity::kError) == "");
  CHECK(
      contains(problem_text(result, Severity::kNotice), R"("cosine" is not known: "log" is used)"));
  CHECK(result.config.scheduler.warmup_type == "log");
}

TEST_CASE("torch_adam may name an implementation; a schedule may begin later") {
  CHECK(errors(R"({"optimizer": {"type": "Adam", "params": {"torch_adam": "torch_impl"}}})") == "");
  const auto start = [](const char* value) {
    return std::string(
               R"({"scheduler": {"type": "WarmupLR", "params": {"last_batch_iteration": )") +
           value + "}}}";
  };
  CHECK(loaded(start("9")).config.scheduler.numbers.at("last_batch_iteration") == 9);
  CHECK(contains(errors(start("-2")), "must be at least -1"));
}
