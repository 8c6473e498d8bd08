#include "hgtrain/arch/pipeline_split.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <catch2/catch.hpp>

#include "hgtrain/arch/memory.h"
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
    return error.message() + " | " + error.hint();
  }
}

}  // namespace

TEST_CASE("stages have the layers that the config gives them, the ends also embedding and head") {
  CHECK(pipeline_blocks(job(12, 1)) == std::vector<Range>{{0, 14}});
  CHECK(pipeline_blocks(job(12, 3, {4, 6, 2})) == std::vector<Range>{{0, 5}, {5, 11}, {11, 14}});
  CHECK(pipeline_blocks(job(12, 3, {0, 12, 0})) == std::vector<Range>{{0, 1}, {1, 13}, {13, 14}});
}

TEST_CASE("a balanced split has the smallest possible maximum of operations") {
  for (const std::int64_t layers : {0, 1, 5, 12})
    for (std::int64_t stages = 1; stages <= std::min<std::int64_t>(layers + 2, 5); ++stages) {
      const Config config = job(layers, stages);
      const std::vector<double> flops = block_flops(config.model, config.training.seq_length);
      const auto most = [&](const std::vector<Range>& blocks) {
        double out = 0;
        for (const Range& part : blocks)
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

TEST_CASE("a balanced interleaved split has the smallest possible maximum over the stages") {
  for (const auto& [layers, stages, virtual_stages] :
       {std::array{12, 2, 2}, std::array{12, 2, 3}, std::array{7, 3, 3}, std::array{20, 3, 2},
        std::array{9, 4, 2}}) {
    const Config config = job(layers, stages, {}, virtual_stages);
    const std::vector<double> flops = block_flops(config.model, config.training.seq_length);
    const std::vector<Range> blocks = pipeline_blocks(config);
    REQUIRE(std::ssize(blocks) == stages * virtual_stages);
    std::vector<double> own(static_cast<std::size_t>(stages), 0);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      CHECK(blocks[i].size() > 0);
      CHECK(blocks[i].begin == (i == 0 ? 0 : blocks[i - 1].end));
      own[i % own.size()] +=
          std::accumulate(flops.begin() + blocks[i].begin, flops.begin() + blocks[i].end, 0.0);
    }
    CHECK(blocks.back().end == layers + 2);
    // To have less, the stage with the most would give a layer away.
    const std::size_t most = static_cast<std::size_t>(std::ranges::max_element(own) - own.begin());
    std::int64_t given = 0;  // layers of this stage that it may give away
    for (std::size_t i = most; i < blocks.size(); i += own.size()) given += blocks[i].size() - 1;
    INFO(layers << " layers, " << stages << " stages");
    if (given > 0)
      for (std::size_t i = 0; i < own.size(); ++i)
        if (i != most) CHECK(own[i] + flops[1] >= own[most] - 1);
  }
  // The head is 5 layers.
  CHECK(pipeline_blocks(job(12, 2, {}, 2)) ==
        std::vector<Range>{{0, 5}, {5, 9}, {9, 13}, {13, 14}});
  CHECK(pipeline_blocks(job(12, 2, {3, 4, 4, 1}, 2)) ==
        std::vector<Range>{{0, 4}, {4, 8}, {8, 12}, {12, 14}});
}

TEST_CASE("a split that does not fit is refused") {
  const std::string hint = " | leave it out for a balanced split";
  CHECK(error_of(job(12, 2, {4, 4, 4})) ==
        "parallelism.pipeline_layer_split = [4, 4, 4] does not split 12 layers into 2 pipeline "
        "stages | "
        "--parallelism.pipeline_parallel_size 3");
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  CHECK_THAT(error_of(job(4, 4, {kHuge, kHuge, kHuge, kHuge + 4})),
             Catch::Contains("does not split 4 layers into 4 pipeline stages"));
  CHECK(
      error_of(job(12, 2, {6, 5})) ==
      "parallelism.pipeline_layer_split = [6, 5] does not split 12 layers into 2 pipeline stages" +
          hint);
  CHECK(error_of(job(12, 3, {6, 0, 6})) ==
        "parallelism.pipeline_layer_split = [6, 0, 6] does not split 12 layers into 3 pipeline "
        "stages of at "
        "least one "
        "layer each" +
            hint);
  CHECK(error_of(job(2, 5)) ==
        "a model of 2 layers cannot be split into 5 pipeline stages | "
        "parallelism.pipeline_parallel_size of at most 4: each stage has a layer, the embedding or "
        "the head");
  CHECK(error_of(job(12, 2, {6, 6}, 2)) ==
        "parallelism.pipeline_layer_split = [6, 6] does not split 12 layers into 2 pipeline stages "
        "of 2 virtual stages each" +
            hint);
  CHECK(error_of(job(5, 2, {}, 4)) ==
        "a model of 5 layers cannot be split into 2 pipeline stages of 4 virtual stages each | "
        "parallelism.virtual_pipeline_stages of at most 3: each has a layer, the embedding or the "
        "head");
  CHECK(error_of(job(5, 4, {}, 2)) ==
        "a model of 5 layers cannot be split into 4 pipeline stages of 2 virtual stages each | "
        "parallelism.pipeline_parallel_size of at most 3: each stage has a layer, the embedding or "
        "the head");
}
