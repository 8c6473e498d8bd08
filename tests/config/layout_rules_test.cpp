#include "hgtrain/config/layout_rules.h"

#include "hgtrain/config/config.h"

#include "loaded.h"

using namespace hgt;

namespace {

ModelConfig llama(std::int64_t heads, std::int64_t keys, std::int64_t width) {
  ModelConfig model;
  model.model_type = "llama";
  model.num_attention_heads = heads;
  model.num_key_value_heads = keys;
  model.intermediate_size = width;
  return model;
}

Config pipeline(std::int64_t layers, std::int64_t stages, std::vector<std::int64_t> split = {},
                std::int64_t virtual_stages = 1) {
  Config config;
  config.model.num_hidden_layers = layers;
  config.parallelism.pipeline_parallel_size = stages;
  config.parallelism.pipeline_layer_split = std::move(split);
  config.parallelism.virtual_pipeline_stages = virtual_stages;
  return config;
}

std::string messages(const Config& config) {
  std::string out;
  for (const LayoutProblem& problem : layout_problems(config))
    out += problem.key + ": " + problem.message + "\n";
  return out;
}

}  // namespace

TEST_CASE("tensor ranks share heads and MLP equally; several may have one key/value head") {
  CHECK(tensor_misfit(llama(32, 8, 14336), 3) ==
        "parallelism.tensor_parallel_size = 3 does not fit the model: it must divide "
        "num_attention_heads = 32 and intermediate_size = 14336, and must divide "
        "num_key_value_heads = 8 or be a multiple of it");
  for (const std::int64_t size : {1, 2, 4, 8, 16, 32})
    CHECK(tensor_misfit(llama(32, 8, 14336), size).empty());
  CHECK_FALSE(tensor_misfit(llama(32, 8, 14336), 64).empty());
  CHECK_FALSE(tensor_misfit(llama(12, 6, 12), 4).empty());
  CHECK(tensor_misfit(llama(12, 6, 12), 12).empty());
  CHECK_FALSE(tensor_misfit(llama(12, 12, 12), 0).empty());
  ModelConfig gpt2 = llama(12, 12, 3072);
  gpt2.model_type = "gpt2";
  CHECK(tensor_misfit(gpt2, 5) ==
        "parallelism.tensor_parallel_size = 5 does not fit the model: it must divide n_head = 12 "
        "and n_inner = 3072");
}

TEST_CASE("each stage of a pipeline has a layer, the embedding or the head") {
  CHECK(pipeline_misfit(pipeline(2, 4)).empty());
  CHECK(pipeline_misfit(pipeline(1, 4)) ==
        "a model of 1 layer cannot be split into 4 pipeline stages: each has a layer, the "
        "embedding or the head, unless parallelism.pipeline_layer_split leaves some without");
  CHECK(pipeline_misfit(pipeline(1, 4, {0, 1, 0, 0})).empty());
  CHECK(pipeline_misfit(pipeline(5, 2, {}, 3)).empty());
  CHECK(contains(pipeline_misfit(pipeline(5, 2, {}, 4)),
                 "a model of 5 layers cannot be split into 2 pipeline stages of 4 virtual stages"));
}

TEST_CASE("a split of the layers names each stage's, which may be none") {
  CHECK(layer_split_misfit(pipeline(12, 3, {0, 12, 0})).empty());
  CHECK(layer_split_misfit(pipeline(12, 3, {6, 0, 6})).empty());
  CHECK(
      layer_split_misfit(pipeline(12, 2, {6, 5})) ==
      "parallelism.pipeline_layer_split = [6, 5] does not split 12 layers into 2 pipeline stages: "
      "its sum is 11");
  CHECK(contains(layer_split_misfit(pipeline(12, 2, {6, 8})), "stages: its sum is more than 12"));
  CHECK(
      contains(layer_split_misfit(pipeline(12, 2, {4, 4, 4})), "stages: it has 3 numbers, not 2"));
  CHECK(contains(layer_split_misfit(pipeline(12, 2, {6, 6}, 2)), "of 2 virtual stages each"));
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  CHECK_FALSE(layer_split_misfit(pipeline(4, 4, {kHuge, kHuge, kHuge, kHuge + 4})).empty());
}

TEST_CASE("all problems of a layout are listed, each at its key") {
  Config config = pipeline(4, 9);
  config.model.num_attention_heads = config.model.num_key_value_heads = 4;
  config.model.intermediate_size = 64;
  config.training.seq_length = 64;
  config.zero.stage = 2;
  config.parallelism.tensor_parallel_size = 3;
  config.parallelism.context_parallel_size = 5;
  config.parallelism.virtual_pipeline_stages = 2;
  const std::string all = messages(config);
  CHECK(contains(all, "parallelism.tensor_parallel_size: "));
  CHECK(contains(all,
                 "parallelism.context_parallel_size: parallelism.context_parallel_size = 5 "
                 "does not fit training.seq_length = 64: each worker gets two of 10 equal "
                 "chunks of a sequence"));
  CHECK(contains(all, "parallelism.pipeline_parallel_size: "));
  CHECK(contains(all, "parallelism.virtual_pipeline_stages = 2 needs the schedule interleaved"));
  CHECK(contains(all, "zero_optimization.stage: ZeRO stages 2 and 3 cannot be combined with"));
  config.parallelism = {.tensor_parallel_size = 2,
                        .pipeline_parallel_size = 2,
                        .context_parallel_size = 4,
                        .pipeline_schedule = "interleaved",
                        .virtual_pipeline_stages = 2};
  config.zero.stage = 1;
  CHECK(messages(config) == "");
  config.parallelism.virtual_pipeline_stages = 1;
  CHECK(contains(messages(config), "virtual_pipeline_stages of at least 2"));
  config.parallelism = {.pipeline_schedule = "interleaved", .virtual_pipeline_stages = 2};
  CHECK(contains(messages(config), "needs a pipeline of at least 2 stages"));
}

TEST_CASE("a model that is not known yet rules out no layout") {
  Config config = pipeline(0, 9, {3, 3});
  config.parallelism.tensor_parallel_size = 3;
  CHECK(messages(config) == "");
}
