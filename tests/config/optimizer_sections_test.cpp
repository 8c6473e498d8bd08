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

TEST_CASE("Adam and AdamW, whatever their case") {
  const Config c =
      optimizer("adam", R"("lr": 1e-4, "adam_w_mode": false, "betas": [0.8, 0.9])").config;
  CHECK(c.optimizer.type == "Adam");
  CHECK_FALSE(c.optimizer.adam_w_mode);
  CHECK(c.optimizer.beta1 == 0.8);
  CHECK(told(optimizer("AdamW", R"("adam_w_mode": false)"), Severity::kError) == "");
  CHECK(optimizer("AdamW", R"("adam_w_mode": false)").config.optimizer.adam_w_mode);
  CHECK(told(optimizer("Adam", R"("amsgrad": true)"), Severity::kNotBuilt) != "");
  CHECK(contains(told(optimizer("Adam", R"("lrr": 1)"), Severity::kError), "did you mean lr?"));
  CHECK(contains(told(optimizer("Adam", R"("betas": [0.9])"), Severity::kError),
                 "a list of two numbers"));
}

TEST_CASE("other optimizers are not built, or never will be; their parameters are not looked at") {
  for (const char* type : {"Lamb", "Lion", "SGD", "Adagrad", "Muon"}) {
    const LoadResult result = optimizer(type, R"("lr": 0.1, "weight_decay": 0.1)");
    CHECK(told(result, Severity::kError) == "");
    CHECK(contains(told(result, Severity::kNotBuilt), "optimizer.type"));
  }
  for (const char* type : {"OneBitAdam", "OnebitAdam", "ZeroOneAdam", "OneBitLamb"})
    CHECK(contains(told(optimizer(type, R"("freeze_step": 10)"), Severity::kError), "use AdamW"));
  CHECK(told(optimizer("Adam", R"("freeze_step": 10)"), Severity::kError) != "");
  CHECK_FALSE(contains(told(optimizer("Adafactor", R"("lr": 1)"), Severity::kError), "lr"));
  CHECK(scheduler_errors("CosineAnnealingLR", R"("T_max": 10)") == "");
  CHECK(contains(told(optimizer("Adafactorr", ""), Severity::kError), "one of: AdamW, Adam"));
}

TEST_CASE("parameters of the schedules have their ranges") {
  CHECK(scheduler_errors("warmuplr", R"("warmup_num_steps": 0)") == "");
  CHECK(contains(scheduler_errors("WarmupLR", R"("warmup_num_steps": -5)"), "is negative"));
  CHECK(contains(scheduler_errors("WarmupLR", R"("warmup_type": "liner")"),
                 "did you mean \"linear\"?"));
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
