#include "hgtrain/optim/optimizer.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/half.h"
#include "hgtrain/base/json.h"
#include "hgtrain/base/stochastic_rounding.h"
#include "hgtrain/config/load.h"

#include "optimizer_runs.h"
#include "sharded_runs.h"
#include "support/roots.h"

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

TEST_CASE("20 updates agree with torch's classes and DeepSpeed's formulas") {
  const json golden =
      parse_json<json>(read_file(source_root() + "/tests/fixtures/optimizers.json", 1 << 20));
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

namespace {

/// An optimizer without fp32 masters over one tensor of `count` elements, all `value`, with
/// gradients of 1.
struct NarrowRun {
  NarrowRun(const OptimizerConfig& config, std::int64_t count, float value, DType state_type,
            int threads = 1)
      : NarrowRun(config, table_of({count}, 1), {}, value, state_type, threads) {}
  NarrowRun(const OptimizerConfig& config, ParameterTable of, TensorRank at, float value,
            DType state_type, int threads = 1)
      : table(std::move(of)),
        rank(at),
        parameters(static_cast<std::size_t>(table.total), BFloat16(value)),
        gradients(parameters.size(), 1.0f),
        narrow(optimizer_state(config).size(), std::vector<BFloat16>(parameters.size())),
        wide(narrow.size(), std::vector<float>(parameters.size())),
        pool(threads),
        optimizer(config, table, buffers(state_type), pool) {}

  void steps(double lr, int count) {
    for (int t = 1; t <= count; ++t) {
      Update update = optimizer.constants({lr, {}, {}}, t);
      update.gradient_factor = 1;
      update.rounding_key = rounding_key(3, t);
      optimizer.step(&update);
    }
  }
  Optimizer::Buffers buffers(DType state_type) {
    Optimizer::Buffers out{
        {flat_tensor(parameters, DType::kBF16)}, {flat_tensor(gradients)}, {}, {}, rank};
    for (std::size_t i = 0; i < narrow.size(); ++i)
      out.state.push_back(
          {state_type == DType::kBF16 ? flat_tensor(narrow[i], state_type) : flat_tensor(wide[i])});
    return out;
  }

  ParameterTable table;
  TensorRank rank;
  std::vector<BFloat16> parameters;
  std::vector<float> gradients;
  std::vector<std::vector<BFloat16>> narrow;
  std::vector<std::vector<float>> wide;
  ThreadPool pool;
  Optimizer optimizer;
};

template <class T>
double mean(const std::vector<T>& values) {
  double sum = 0;
  for (const T& x : values) sum += x;
  return sum / static_cast<double>(values.size());
}

}  // namespace

TEST_CASE("updates far below a bf16 number's precision are not lost on average") {
  OptimizerConfig config = optimizer_config("SGD");
  config.momentum = config.weight_decay = 0;
  NarrowRun run(config, 64 * 256, 1, DType::kF32);
  run.steps(1e-4, 1000);  // a fortieth of bf16's step at 1
  CHECK(mean(run.parameters) == Approx(0.9).margin(0.001));
}

TEST_CASE("moments of bf16 are those of fp32 on average") {
  OptimizerConfig config = optimizer_config("AdamW");
  NarrowRun wide(config, 64 * 256, 1, DType::kF32), narrow(config, 64 * 256, 1, DType::kBF16);
  for (NarrowRun* run : {&wide, &narrow}) run->steps(1e-3, 1000);
  CHECK(wide.wide[1][0] == Approx(1 - std::pow(0.999, 1000)).epsilon(1e-4));
  CHECK(mean(narrow.narrow[1]) == Approx(wide.wide[1][0]).epsilon(0.002));
  CHECK(mean(narrow.narrow[0]) == Approx(wide.wide[0][0]).epsilon(0.002));
  CHECK(mean(narrow.parameters) == Approx(mean(wide.parameters)).margin(0.002));
}

TEST_CASE("no number of threads changes how bf16 is rounded") {
  const auto after = [](int threads) {
    NarrowRun run(optimizer_config("AdamW"), 100'003, 0.3f, DType::kBF16, threads);
    run.steps(0.01, 3);
    std::vector<std::uint16_t> bits;
    for (const auto* values : {&run.parameters, &run.narrow[0], &run.narrow[1]})
      for (const BFloat16 x : *values) bits.push_back(x.bits);
    return bits;
  };
  CHECK(after(2) == after(1));
  CHECK(after(3) == after(1));
}

TEST_CASE("tensor ranks round their parts of bf16 as one rank rounds the whole") {
  const auto after = [](const Split& split, TensorRank at) {
    NarrowRun run(optimizer_config("AdamW"), table_of_part(60, 42, split), at, 0.3f, DType::kBF16);
    run.steps(0.01, 3);
    return std::array{run.parameters, run.narrow[0], run.narrow[1]};
  };
  const auto whole = after({}, {});
  for (const Split split : {Split{0, 1, 2}, Split{1, 1, 2}, Split{1, 3, 2}})
    for (const int rank : {0, 1}) {
      const auto part = after(split, {rank, 2});
      const ParameterTable table = table_of_part(60, 42, split);
      const auto compare = [&](const Placement::Run& run) {
        for (std::size_t buffer = 0; buffer < part.size(); ++buffer)
          for (std::int64_t i = 0; i < run.size; ++i)
            REQUIRE(part[buffer][static_cast<std::size_t>(run.local + i)].bits ==
                    whole[buffer][static_cast<std::size_t>(run.whole + i)].bits);
      };
      table.parameters[0].placement({rank, 2}).for_each_run({0, 60 * 21}, compare);
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

TEST_CASE("a schedule's betas override the config's") {
  OptimizerRun run(OptimizerConfig{}, table_of({1}, 1));
  run.gradients[0] = 1;
  run.step({0.1, 0.5, 0.25}, 1, 1);
  CHECK(run.state[0][0] == 0.5f);
  CHECK(run.state[1][0] == 0.75f);
}

TEST_CASE("Lion does not change parameters that never had a gradient") {
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

TEST_CASE("an update block by block gives the bits of one at once") {
  const ParameterTable table = table_of_blocks();
  for (const OptimizerConfig& config : every_optimizer()) {
    INFO(config.type);
    OptimizerRun whole(config, table), parts(config, table);
    for (std::size_t i = 0; i < whole.parameters.size(); ++i)
      whole.parameters[i] = whole.gradients[i] = std::sin(static_cast<float>(i));
    parts.parameters = parts.gradients = whole.gradients;
    Update update = whole.optimizer.constants({0.01, {}, {}}, 1);
    update.gradient_factor = 0.7f;
    for (OptimizerRun* run : {&whole, &parts}) run->optimizer.prepare(&update);
    whole.optimizer.step(&update);
    for (const Range& block : table.blocks()) parts.optimizer.step(&update, block);
    CHECK(parts.parameters == whole.parameters);
    CHECK(parts.state == whole.state);
    update.skip = 1;
    parts.optimizer.step(&update, {0, table.total});
    CHECK(parts.parameters == whole.parameters);
  }
}

TEST_CASE("an optimizer that is not built is refused") {
  CHECK_THROWS_WITH(OptimizerRun(optimizer_config("Muon"), table_of({1}, 1)),
                    "optimizer type 'Muon' is not built");
}

TEST_CASE("any number of ranks updates every element as one rank does, bit for bit") {
  ThreadPool pool(2);
  for (const OptimizerConfig& config : every_optimizer()) check_shards(config, pool);
}
