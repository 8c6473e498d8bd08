#include "hgtrain/optim/adam.h"

#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/device/thread_pool.h"

using namespace hgt;

namespace {

/// Flat buffers of `size` elements and an optimizer over them.
struct Run {
  Run(const OptimizerConfig& config, std::vector<float> start, std::int64_t decay_end,
      int threads = 1)
      : parameters(std::move(start)),
        gradients(parameters.size()),
        exp_avg(parameters.size()),
        exp_avg_sq(parameters.size()),
        pool(threads),
        adam(config, {parameters, gradients, exp_avg, exp_avg_sq}, decay_end, pool) {}

  std::vector<float> parameters, gradients, exp_avg, exp_avg_sq;
  ThreadPool pool;
  Adam adam;
};

OptimizerConfig config_of(const std::string& type, bool adam_w_mode) {
  OptimizerConfig config;
  config.type = type;
  config.lr = 0.1;
  config.beta2 = 0.99;
  config.weight_decay = 0.1;
  config.adam_w_mode = adam_w_mode;
  return config;
}

/// Three updates with gradients (0.5, -0.25, 3) * t.
std::vector<float> three_updates(const OptimizerConfig& config, double gradient_factor = 1) {
  Run run(config, {1, -2, 0.5}, 3);
  for (int t = 1; t <= 3; ++t) {
    const float f = static_cast<float>(t / gradient_factor);
    run.gradients = {0.5f * f, -0.25f * f, 3 * f};
    run.adam.step({0.1, {}, {}}, gradient_factor, t);
  }
  return run.parameters;
}

void check_close(const std::vector<float>& actual, const std::vector<double>& expected) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    CHECK(actual[i] == Approx(expected[i]).epsilon(2e-6));
}

}  // namespace

// Expected values: torch.optim.AdamW and torch.optim.Adam(weight_decay) of torch 2, lr 0.1, betas
// (0.9, 0.99), eps 1e-8, weight decay 0.1.
TEST_CASE("AdamW, and Adam in DeepSpeed's default mode, decay the weights themselves") {
  const std::vector<double> expected{0.681311965, -1.65161097, 0.196162462};
  check_close(three_updates(config_of("AdamW", true)), expected);
  check_close(three_updates(config_of("AdamW", false)), expected);
  check_close(three_updates(config_of("adam", true)), expected);
}

TEST_CASE("Adam without adam_w_mode adds the decay to the gradient") {
  check_close(three_updates(config_of("Adam", false)), {0.706043601, -1.70283198, 0.207848281});
}

TEST_CASE("the clip factor scales the gradients") {
  check_close(three_updates(config_of("AdamW", true), 0.25),
              {0.681311965, -1.65161097, 0.196162462});
}

TEST_CASE("without bias correction the first update is the raw moments' ratio") {
  OptimizerConfig config = config_of("AdamW", true);
  config.bias_correction = false;
  config.weight_decay = 0;
  Run run(config, {1}, 1);
  run.gradients = {2};
  run.adam.step({0.1, {}, {}}, 1, 1);
  check_close(run.parameters, {1 - 0.1 * (0.1 * 2) / (std::sqrt(0.01 * 4) + 1e-8)});
}

TEST_CASE("only the decay group decays, and a schedule's betas win") {
  Run run(config_of("AdamW", true), {1, 1}, 1);
  run.adam.step({0.1, 0.5, 0.5}, 1, 1);
  check_close(run.parameters, {0.99, 1.0});
  run.gradients = {1, 1};
  run.adam.step({0.1, 0.5, 0.5}, 1, 2);
  check_close(run.exp_avg, {0.5, 0.5});
  check_close(run.exp_avg_sq, {0.5, 0.5});
}

TEST_CASE("the number of threads changes no bit") {
  const std::size_t count = 64 * 5000;
  std::vector<float> start(count);
  for (std::size_t i = 0; i < count; ++i) start[i] = std::sin(static_cast<float>(i));
  std::vector<std::vector<float>> results;
  for (int threads : {1, 2, 3}) {
    Run run(config_of("AdamW", true), start, 64 * 3001, threads);
    for (int t = 1; t <= 3; ++t) {
      for (std::size_t i = 0; i < count; ++i)
        run.gradients[i] = std::cos(static_cast<float>(i * t));
      run.adam.step({0.01, {}, {}}, 0.7, t);
    }
    results.push_back(run.parameters);
  }
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
}

TEST_CASE("an optimizer that is not built is refused") {
  CHECK_THROWS_WITH(Run(config_of("Lamb", true), {1}, 1), "optimizer type 'Lamb' is not built");
}
