#include "hgtrain/optim/optimizer.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/config/load.h"

#include "optimizer_runs.h"

using namespace hgt;
using nlohmann::json;

namespace {

OptimizerConfig optimizer_config(const std::string& type) {
  OptimizerConfig config;
  config.type = type;
  config.weight_decay = 0.1;
  config.momentum = 0.9;
  return config;
}

/// The tensors of tests/golden/optimizers.py, their starts and their gradients.
struct GoldenRun : OptimizerRun {
  explicit GoldenRun(const OptimizerConfig& config)
      : OptimizerRun(config, table_of({16, 5, 3}, 2)) {
    each([&](int tensor, int i, std::size_t at) {
      parameters[at] = static_cast<float>((i * 53 + tensor * 17) % 101 - 50) / 32;
    });
  }
  void step(double lr, int t, double gradient_factor) {
    each([&](int tensor, int i, std::size_t at) {
      const int number = (i * 37 + t * 101 + i * i * t + tensor * 29) % 257 - 128;
      gradients[at] = i % 7 == 3 ? 0 : static_cast<float>(number / 64.0 / gradient_factor);
    });
    OptimizerRun::step({lr * (1 + t % 3) / 2, {}, {}}, gradient_factor, t);
  }
  std::vector<float> values() {
    std::vector<float> out;
    each([&](int, int, std::size_t at) { out.push_back(parameters[at]); });
    return out;
  }

 private:
  template <class Visit>
  void each(const Visit& visit) {
    for (std::size_t tensor = 0; tensor < table.parameters.size(); ++tensor)
      for (std::int64_t i = 0; i < table.parameters[tensor].numel; ++i)
        visit(static_cast<int>(tensor), static_cast<int>(i),
              static_cast<std::size_t>(table.parameters[tensor].offset + i));
  }
};

void check_padding(const OptimizerRun& run) {
  std::size_t at = 0;
  for (const Parameter& p : run.table.parameters) {
    for (; at < static_cast<std::size_t>(p.offset); ++at) CHECK(run.parameters[at] == 0);
    at += static_cast<std::size_t>(p.numel);
  }
  for (; at < run.parameters.size(); ++at) CHECK(run.parameters[at] == 0);
}

}  // namespace

TEST_CASE("20 updates as torch's classes and DeepSpeed's formulas have them") {
  const json golden =
      json::parse(read_file(HGT_SOURCE_ROOT "/tests/fixtures/optimizers.json", 1 << 20));
  CHECK(golden.at("updates").size() == 14);
  for (const json& of : golden.at("updates")) {
    const json section{{"type", of["type"]}, {"params", of["params"]}};
    INFO(section.dump());
    const LoadResult loaded = load_config_text(json{{"optimizer", section}}.dump(), "f", {});
    REQUIRE_FALSE(loaded.has(Severity::kError));
    REQUIRE_FALSE(loaded.has(Severity::kNotBuilt));
    const OptimizerConfig& config = loaded.config.optimizer;
    for (const double factor : {1.0, 0.25}) {
      GoldenRun run(config);
      for (int t = 1; t <= 20; ++t) {
        run.step(config.lr, t, factor);
        if (!of["after"].contains(std::to_string(t))) continue;
        INFO("after " << t << " updates");
        const auto expected = of["after"][std::to_string(t)].get<std::vector<double>>();
        const auto actual = run.values();
        REQUIRE(actual.size() == expected.size());
        for (std::size_t i = 0; i < actual.size(); ++i)
          CHECK(actual[i] == Approx(expected[i]).epsilon(1e-6).margin(2e-6));
      }
      check_padding(run);
    }
  }
}

TEST_CASE("the number of threads changes no bit") {
  for (const char* type : {"AdamW", "Lion", "SGD", "Adagrad"}) {
    const auto one = updated_by(optimizer_config(type), 1);
    CHECK(updated_by(optimizer_config(type), 2) == one);
    CHECK(updated_by(optimizer_config(type), 3) == one);
  }
}

TEST_CASE("without bias correction the first update is the raw moments' ratio") {
  OptimizerConfig config;
  config.bias_correction = false;
  OptimizerRun run(config, table_of({1}, 1));
  run.gradients[0] = 2;
  run.step({0.1, {}, {}}, 1, 1);
  CHECK(run.parameters[0] == Approx(-0.1 * (0.1 * 2) / (std::sqrt(0.001 * 4) + 1e-8)));
}

TEST_CASE("a schedule's betas win") {
  OptimizerRun run(OptimizerConfig{}, table_of({1}, 1));
  run.gradients[0] = 1;
  run.step({0.1, 0.5, 0.25}, 1, 1);
  CHECK(run.state[0][0] == 0.5f);
  CHECK(run.state[1][0] == 0.75f);
}

TEST_CASE("Lion leaves alone what never had a gradient") {
  OptimizerConfig config = optimizer_config("Lion");
  config.weight_decay = 0;
  OptimizerRun run(config, table_of({2}, 1));
  run.parameters = {1, 1};
  run.parameters.resize(64);
  run.gradients[0] = -3;
  for (int t = 1; t <= 5; ++t) run.step({0.5, {}, {}}, 1, t);
  CHECK(run.parameters[0] == 3.5f);
  CHECK(run.parameters[1] == 1);
}

TEST_CASE("an optimizer that is not built is refused") {
  CHECK_THROWS_WITH(OptimizerRun(optimizer_config("Muon"), table_of({1}, 1)),
                    "optimizer type 'Muon' is not built");
}
