#include "layout_neighbours.h"

#include "hgtrain/config/layout_rules.h"

#include "loaded.h"

using namespace hgt;

namespace {

using Ways = std::vector<std::string>;

Config gpt2(ParallelismConfig parallelism) {
  Config config;
  config.model.model_type = "gpt2";
  config.model.num_hidden_layers = 4;
  config.model.num_attention_heads = config.model.num_key_value_heads = 4;
  config.model.intermediate_size = 256;
  config.model.max_position_embeddings = 64;
  config.training.seq_length = 64;
  config.parallelism = std::move(parallelism);
  return config;
}

Ways near(const Config& config, std::int64_t world = 0) {
  return neighbours_of(config, world, [](std::int64_t) { return true; });
}

const std::string kTensor = "parallelism.tensor_parallel_size = ",
                  kContext = "parallelism.context_parallel_size = ",
                  kPipeline = "parallelism.pipeline_parallel_size = ";

}  // namespace

TEST_CASE("the neighbours of a size are the nearest that fit, and smaller ones first") {
  CHECK(near(gpt2({.tensor_parallel_size = 3})) ==
        Ways{kTensor + "4", kTensor + "2", kTensor + "1"});
  CHECK(near(gpt2({.tensor_parallel_size = 3}), 6) == Ways{kTensor + "2", kTensor + "1"});
  CHECK(near(gpt2({.pipeline_parallel_size = 9}), 9) == Ways{kPipeline + "3", kPipeline + "1"});
}

TEST_CASE("sequences may be of another length, but of none that the model does not have") {
  CHECK(near(gpt2({.context_parallel_size = 5})) ==
        Ways{"training.seq_length = 60", kContext + "4", kContext + "8"});
  Config longer = gpt2({.context_parallel_size = 3});
  longer.training.seq_length = 32;
  CHECK(near(longer, 3) ==
        Ways{"training.seq_length = 30", "training.seq_length = 36", kContext + "1"});
}

TEST_CASE("a neighbour fits as a whole") {
  CHECK(near(gpt2({.tensor_parallel_size = 4, .pipeline_parallel_size = 4}), 8) ==
        Ways{kPipeline + "2", kTensor + "2", kPipeline + "1"});
  const Config interleaved = gpt2({.pipeline_parallel_size = 4,
                                   .pipeline_schedule = "interleaved",
                                   .virtual_pipeline_stages = 2});
  CHECK(near(interleaved) == Ways{kPipeline + "3", kPipeline + "2",
                                  "parallelism.pipeline_schedule = \"1f1b\" and "
                                  "parallelism.virtual_pipeline_stages = 1"});
  CHECK(near(interleaved, 4).front() == kPipeline + "2");
  CHECK(near(gpt2({.pipeline_parallel_size = 2, .pipeline_layer_split = {3, 3}})).front() ==
        "parallelism.pipeline_layer_split = \"balanced\"");
  CHECK(near(gpt2({.pipeline_parallel_size = 2, .pipeline_layer_split = {2, 1, 1}})).front() ==
        kPipeline + "3");
  Config zero = gpt2({.pipeline_parallel_size = 2});
  zero.zero.stage = 3;
  CHECK(near(zero) == Ways{"zero_optimization.stage = 1", kPipeline + "1"});
}

TEST_CASE("a neighbour has a data-parallel size that its workers make up, and a batch they share") {
  CHECK(near(gpt2({.data_parallel_size = 4, .tensor_parallel_size = 3}), 8).front() ==
        kTensor + "2");
  CHECK(near(gpt2({.data_parallel_size = 3, .tensor_parallel_size = 2}), 8) ==
        Ways{"parallelism.data_parallel_size = 4"});
  const auto even = [](std::int64_t groups) { return groups == 2; };
  CHECK(neighbours_of(gpt2({.tensor_parallel_size = 3}), 8, even) == Ways{kTensor + "4"});
}
