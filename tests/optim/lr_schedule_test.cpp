#include "hgtrain/optim/lr_schedule.h"

#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/json.h"
#include "hgtrain/config/config.h"

#include "support/roots.h"

using namespace hgt;
using nlohmann::json;
using Golden = std::vector<std::pair<std::int64_t, double>>;

namespace {

LrSchedule schedule(const std::string& type, std::map<std::string, double> numbers,
                    double optimizer_lr = 1e-3, const std::string& warmup_type = "log") {
  Config config;
  config.scheduler = {type, std::move(numbers), warmup_type};
  config.optimizer.lr = optimizer_lr;
  return LrSchedule(config);
}

void check_rates(const LrSchedule& schedule, const Golden& golden) {
  for (const auto& [updates, lr] : golden) {
    INFO("after " << updates << " updates");
    CHECK(schedule.at(updates).lr == Approx(lr).epsilon(1e-12).margin(1e-18));
  }
}

const std::map<std::string, double> kCycle{{"cycle_min_lr", 1e-5},        {"cycle_max_lr", 1e-2},
                                           {"cycle_first_step_size", 10}, {"decay_lr_rate", 1e-3},
                                           {"decay_step_size", 10},       {"cycle_min_mom", .08},
                                           {"cycle_max_mom", .09},        {"decay_mom_rate", 1e-3}};

}  // namespace

// The golden rates were printed by DeepSpeed's own schedulers.
TEST_CASE("WarmupLR has DeepSpeed's rates") {
  const std::map<std::string, double> numbers{
      {"warmup_min_lr", .1}, {"warmup_max_lr", .2}, {"warmup_num_steps", 10}};
  check_rates(schedule("WarmupLR", numbers), {{0, .1},
                                              {1, .1},
                                              {2, .13010299956639812},
                                              {3, .14771212547196624},
                                              {6, .17781512503836436},
                                              {10, .2},
                                              {11, .2}});
  check_rates(schedule("warmuplr", numbers, 1e-3, "linear"),
              {{0, .1}, {1, .1}, {2, .11}, {3, .12}, {6, .15}, {10, .19}, {11, .2}});
  check_rates(
      schedule("WarmupLR", {}, 1.5e-4),
      {{0, 0}, {1, 0}, {2, 1.5051499783199057e-05}, {500, 1.3494850021680092e-4}, {1000, 1.5e-4}});
}

TEST_CASE("WarmupDecayLR has DeepSpeed's rates") {
  check_rates(schedule("WarmupDecayLR", {{"warmup_min_lr", .1},
                                         {"warmup_max_lr", .2},
                                         {"warmup_num_steps", 10},
                                         {"total_num_steps", 20}}),
              {{10, .2}, {11, .2}, {12, .19}, {16, .15}, {20, .11}, {21, .1}, {22, .1}});
  check_rates(schedule("WarmupDecayLR", {{"warmup_num_steps", 10}, {"total_num_steps", 20}}),
              {{2, 3.0102999566398113e-4}, {11, 1e-3}, {12, 9e-4}, {21, 0}});
}

TEST_CASE("WarmupCosineLR has DeepSpeed's rates") {
  check_rates(schedule("WarmupCosineLR",
                       {{"total_num_steps", 100},
                        {"warmup_num_steps", 10},
                        {"cos_min_ratio", .1},
                        {"warmup_min_ratio", .2}},
                       .0015),
              {{0, 0},
               {1, 3e-4},
               {2, 6.612359947967774e-4},
               {5, 1.1387640052032224e-3},
               {10, .0015},
               {11, 1.4995888082378896e-3},
               {55, 8.25e-4},
               {99, 1.5041119176211038e-4},
               {100, 1.5e-4},
               {104, 1.5e-4}});
}

TEST_CASE("OneCycle has DeepSpeed's rates and momenta") {
  const auto cycle = schedule("OneCycle", kCycle);
  check_rates(cycle, {{0, 1e-5},
                      {1, 1.009e-3},
                      {5, 5.005e-3},
                      {9, 9.001e-3},
                      {10, 1e-2},
                      {15, 5.005e-3},
                      {20, 1e-5},
                      {21, 9.999000099990002e-6},
                      {30, 9.990009990009992e-6}});
  for (const auto& [updates, beta1] : Golden{{0, .08},
                                             {1, .089},
                                             {5, .085},
                                             {10, .08},
                                             {15, .085},
                                             {20, .09},
                                             {21, .090009},
                                             {30, .09009}}) {
    CHECK(*cycle.at(updates).beta1 == Approx(beta1).epsilon(1e-12));
    CHECK(cycle.at(updates).beta2 == 0.99);
  }
}

TEST_CASE("OneCycle without momentum leaves the betas, without decay stays at its minimum") {
  auto numbers = kCycle;
  numbers["cycle_momentum"] = 0;
  numbers["decay_step_size"] = 0;
  const Rate rate = schedule("OneCycle", numbers).at(1000);
  CHECK(rate.lr == 1e-5);
  CHECK_FALSE(rate.beta1);
}

TEST_CASE("OneCycle climbs in stairs if asked to, also without a second half") {
  auto numbers = kCycle;
  numbers["cycle_first_stair_count"] = 2;
  const auto stairs = schedule("OneCycle", numbers);
  CHECK(stairs.at(4).lr == stairs.at(0).lr);
  CHECK(stairs.at(9).lr == stairs.at(5).lr);
  CHECK(stairs.at(10).lr == Approx(1e-2));
  numbers = kCycle;
  numbers["cycle_second_step_size"] = 0;
  CHECK(schedule("OneCycle", numbers).at(5).lr == Approx(5.005e-3));
}

TEST_CASE("LRRangeTest has DeepSpeed's rates") {
  std::map<std::string, double> numbers{{"lr_range_test_min_lr", 1e-4},
                                        {"lr_range_test_step_size", 10},
                                        {"lr_range_test_step_rate", 1e-3}};
  check_rates(schedule("LRRangeTest", numbers), {{5, 1.0005e-4}, {10, 1.001e-4}, {20, 1.002e-4}});
  numbers["lr_range_test_staircase"] = 1;
  check_rates(schedule("LRRangeTest", numbers),
              {{9, 1e-4}, {10, 1.001e-4}, {19, 1.001e-4}, {20, 1.002e-4}});
}

TEST_CASE("a warmup takes two steps at least") {
  for (const double steps : {0, 1, 2})
    check_rates(schedule("WarmupLR", {{"warmup_num_steps", steps}}), {{0, 0}, {1, 0}, {2, 1e-3}});
}

TEST_CASE("our own schedules have the rates of torch's, from the first update to the last") {
  const json golden =
      parse_json<json>(read_file(source_root() + "/tests/fixtures/optimizers.json", 1 << 20));
  CHECK(golden.at("schedules").size() == 8);
  for (const json& of : golden.at("schedules")) {
    const json& keys = of.at("lr_schedule");
    INFO(keys.dump());
    Config config;
    config.optimizer.lr = golden.at("lr");
    config.training.train_iters = golden.at("train_iters");
    LrScheduleConfig& s = config.training.lr_schedule;
    s.type = keys.at("type");
    s.warmup_iters = keys.value("warmup_iters", 0);
    s.decay_iters = keys.value("decay_iters", 0);
    s.min_lr = keys.value("min_lr", 0.0);
    s.decay_style = keys.value("decay_style", "linear");
    const auto rates = of.at("rates").get<std::vector<double>>();
    const LrSchedule schedule(config);
    for (std::size_t k = 0; k < rates.size(); ++k) {
      INFO("after " << k << " updates");
      CHECK(schedule.at(static_cast<std::int64_t>(k)).lr == Approx(rates[k]).epsilon(1e-11));
    }
    CHECK(schedule.at(1'000'000).lr == Approx(rates.back()).epsilon(1e-11));
  }
}

TEST_CASE("a run shorter than its warmup only warms up, and no update has the rate 0") {
  Config config;
  config.training.train_iters = 10;
  for (const char* type : {"constant", "cosine", "wsd"}) {
    config.training.lr_schedule = {.type = type, .warmup_iters = 20};
    const LrSchedule schedule(config);
    for (std::int64_t k = 0; k < 10; ++k)
      CHECK(schedule.at(k).lr == Approx(config.optimizer.lr * static_cast<double>(k + 1) / 20));
    config.training.lr_schedule.warmup_iters = 0;
    CHECK(LrSchedule(config).at(9).lr > 0);
  }
  config.training.lr_schedule.type = "step";
  CHECK_THROWS_WITH(LrSchedule(config), "training.lr_schedule.type 'step' is not known");
}

TEST_CASE("without a scheduler the rate is constant") {
  check_rates(schedule("", {}, 3e-4), {{0, 3e-4}, {100000, 3e-4}});
}

TEST_CASE("numbers that make no schedule are refused by name") {
  CHECK_THROWS_WITH(schedule("WarmupDecayLR", {}), "scheduler WarmupDecayLR needs total_num_steps");
  CHECK_THROWS_WITH(schedule("WarmupLR", {{"warmup_num_steps", -5}}),
                    "scheduler WarmupLR warmup_num_steps = -5 is negative");
  CHECK_THROWS_WITH(
      schedule("OneCycle",
               {{"cycle_min_lr", 1}, {"cycle_max_lr", 2}, {"cycle_second_step_size", -1}}),
      "scheduler OneCycle cycle_second_step_size = -1 is negative");
  CHECK_THROWS_AS(schedule("LRRangeTest", {{"lr_range_test_step_size", 0}}), Error);
  CHECK_THROWS_WITH(schedule("CosineAnnealingLR", {}),
                    "scheduler type 'CosineAnnealingLR' is not built");
}

TEST_CASE(
    "a schedule begins after last_batch_iteration, and its first update has the optimizer's rate") {
  check_rates(schedule("WarmupLR",
                       {{"warmup_min_lr", .1},
                        {"warmup_max_lr", .2},
                        {"warmup_num_steps", 10},
                        {"last_batch_iteration", 1}},
                       1e-3),
              {{0, 1e-3}, {1, .14771212547196624}, {4, .17781512503836436}, {8, .2}, {9, .2}});
}
