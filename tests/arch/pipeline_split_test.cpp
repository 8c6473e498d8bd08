#include "hgtrain/arch/pipeline_split.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <catch2/catch.hpp>

#include "hgtrain/arch/flops.h"
#include "hgtrain/base/error.h"
#include "hgtrain/config/config.h"

using namespace hgt;

namespace {

Config job(std::int64_t layers, std::int64_t stages, std::vector<std::int64_t> split = {},
           std::int64_t virtual_stages = 1) {
  Config config;
  ModelConfig& model = config.model;
  model.vocab_size = 50257;
  model.hidden_size = 768;
  model.intermediate_size = 3072;
  model.num_hidden_layers = layers;
  model.num_attention_heads = model.num_key_value_heads = 12;
  model.head_dim = 64;
  config.training.seq_length = 1024;
  config.parallelism.pipeline_parallel_size = stages;
  config.parallelism.pipeline_layer_split = std::move(split);
  config.parallelism.virtual_pipeline_stages = virtual_stages;
  return config;
}

std::string error_of(const Config& config) {
  try {
    pipeline_blocks(config);
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

std::vector<double> flops_of(const Config& config) {
  std::vector<double> out;
  for (const BlockTime& block : block_times(config)) out.push_back(block.sum());
  return out;
}

}  // namespace

TEST_CASE("stages have the layers that the config gives them, the ends also embedding and head") {
  CHECK(pipeline_blocks(job(12, 1)) == std::vector<Range>{{0, 14}});
  CHECK(pipeline_blocks(job(12, 3, {4, 6, 2})) == std::vector<Range>{{0, 5}, {5, 11}, {11, 14}});
  CHECK(pipeline_blocks(job(12, 3, {0, 12, 0})) == std::vector<Range>{{0, 1}, {1, 13}, {13, 14}});
}

TEST_CASE("a balanced split gives fewer layers to a stage that recomputes them") {
  Config config = job(12, 2);
  config.model.vocab_size = 1;
  REQUIRE(pipeline_blocks(config) == std::vector<Range>{{0, 7}, {7, 14}});
  config.recompute = {"full", 6};
  CHECK(pipeline_blocks(config) == std::vector<Range>{{0, 6}, {6, 14}});
  config.recompute = {"full", 12};
  CHECK(pipeline_blocks(config) == std::vector<Range>{{0, 7}, {7, 14}});
}

TEST_CASE("a stage without layers has a block of its own, above the model's") {
  CHECK(pipeline_blocks(job(12, 4, {0, 0, 12, 0})) ==
        std::vector<Range>{{0, 1}, {15, 16}, {1, 13}, {13, 14}});
  CHECK(pipeline_blocks(job(12, 2, {0, 0, 0, 12}, 2)) ==
        std::vector<Range>{{0, 1}, {15, 16}, {16, 17}, {1, 14}});
  CHECK(pipeline_blocks(job(1, 5, {1, 0, 0, 0, 0})).size() == 5);
}

TEST_CASE("stages without layers only wait") {
  for (const auto& split : {std::vector<std::int64_t>{6, 0, 0, 6}, {0, 6, 0, 6}}) {
    Config config = job(12, 4, split);
    config.batch.gradient_accumulation_steps = 64;
    CHECK(pipeline_idle_share(config) > 0.5);
    CHECK(pipeline_idle_share(config) < 0.8);
  }
}

TEST_CASE("a balanced split has the smallest possible maximum of operations") {
  for (const std::int64_t layers : {0, 1, 5, 12})
    for (std::int64_t stages = 1; stages <= std::min<std::int64_t>(layers + 2, 5); ++stages) {
      const Config config = job(layers, stages);
      const std::vector<double> flops = flops_of(config);
      const auto most = [&](const std::vector<Range>& blocks) {
        double out = 0;
        for (const Range& part : blocks)
          if (part.begin < std::ssize(flops))
            out = std::max(
                out, std::accumulate(flops.begin() + part.begin, flops.begin() + part.end, 0.0));
        return out;
      };
      // Every other split, by brute force.
      double best = most(pipeline_blocks(config));
      std::vector<std::int64_t> split(static_cast<std::size_t>(stages), 0);
      const auto check_all = [&](const auto& self, std::size_t at, std::int64_t left) -> void {
        if (at + 1 == split.size()) {
          split[at] = left;
          Config other = job(layers, stages, split);
          if (error_of(other).empty()) REQUIRE(most(pipeline_blocks(other)) >= best);
          return;
        }
        for (split[at] = 0; split[at] <= left; ++split[at]) self(self, at + 1, left - split[at]);
      };
      INFO(layers << " layers, " << stages << " stages");
      check_all(check_all, 0, layers);
    }
  CHECK(pipeline_blocks(job(12, 2)) ==
        std::vector<Range>{{0, 9}, {9, 14}});  // the head is 5 layers
}

TEST_CASE("a balanced interleaved split has the shortest stages, then the shortest parts") {
  struct Case {
    std::int64_t layers, stages, virtual_stages, vocabulary;
    std::vector<std::int64_t> windows = {};
  };
  for (const Case& c :
       {Case{2, 2, 2, 50257}, Case{7, 2, 2, 50257}, Case{12, 2, 2, 50257}, Case{12, 2, 3, 50257},
        Case{7, 3, 3, 50257}, Case{12, 3, 2, 50257}, Case{9, 4, 2, 50257}, Case{12, 2, 2, 100},
        Case{11, 3, 2, 9000}, Case{10, 2, 4, 9000}, Case{11, 2, 3, 15000},
        Case{8, 2, 2, 100, {16, 16, 16, 16, 0, 0, 0, 0}},
        Case{9, 3, 2, 9000, {0, 64, 64, 0, 64, 64, 0, 64, 64}}}) {
    Config config = job(c.layers, c.stages, {}, c.virtual_stages);
    config.model.vocab_size = c.vocabulary;
    config.model.layer_windows = c.windows;
    config.training.seq_length = c.windows.empty() ? 1024 : 8192;
    const std::vector<double> flops = flops_of(config);
    const auto costs = [&](const std::vector<Range>& blocks) {
      std::vector<double> of_stages(static_cast<std::size_t>(c.stages), 0);
      double longest = 0;
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        const double cost =
            std::accumulate(flops.begin() + blocks[i].begin, flops.begin() + blocks[i].end, 0.0);
        longest = std::max(longest, cost);
        of_stages[i % of_stages.size()] += cost;
      }
      return std::pair(std::ranges::max(of_stages), longest);
    };
    const auto best = costs(pipeline_blocks(config));
    // Every other split, by brute force.
    std::vector<std::int64_t> split(static_cast<std::size_t>(c.stages * c.virtual_stages), 0);
    const auto check_all = [&](const auto& self, std::size_t at, std::int64_t left) -> void {
      if (at + 1 == split.size()) {
        split[at] = left;
        Config other = config;
        other.parallelism.pipeline_layer_split = split;
        const auto [stage, part] = costs(pipeline_blocks(other));
        constexpr double kRounding = 1 + 1e-9;
        REQUIRE(stage * kRounding >= best.first);
        if (c.windows.empty() && stage <= best.first * kRounding)
          REQUIRE(part * kRounding >= best.second);
        return;
      }
      for (split[at] = at == 0 ? 0 : 1; split[at] <= left; ++split[at])
        self(self, at + 1, left - split[at]);
    };
    CAPTURE(c.layers, c.stages, c.virtual_stages, c.vocabulary);
    check_all(check_all, 0, c.layers);
  }
  // The head is 5 layers.
  CHECK(pipeline_blocks(job(12, 2, {}, 2)) ==
        std::vector<Range>{{0, 5}, {5, 9}, {9, 13}, {13, 14}});
  CHECK(pipeline_blocks(job(12, 2, {3, 4, 4, 1}, 2)) ==
        std::vector<Range>{{0, 4}, {4, 8}, {8, 12}, {12, 14}});
}

TEST_CASE("a split that does not fit is refused") {
  CHECK_THAT(error_of(job(12, 2, {4, 4, 4})),
             Catch::Contains("[4, 4, 4] does not split 12 layers into 2 pipeline stages"));
  CHECK_THAT(error_of(job(2, 5)),
             Catch::Contains("a model of 2 layers cannot be split into 5 pipeline stages"));
}
