#include "elasticity.h"

#include <fmt/format.h>

#include "loaded.h"

using namespace hgt;

namespace {

/// The section of a config, with more keys.
std::string elastic(const std::string& keys, const std::string& others = "") {
  return fmt::format(
      R"({{"elasticity": {{"enabled": true, "max_train_batch_size": 32, "micro_batch_sizes": [1, 2, 3, 7]{}}}{}}})",
      keys, others);
}

BatchConfig batch_of(const std::string& text, std::int64_t world) {
  const LoadResult result = loaded(text, world);
  CHECK(problem_text(result, Severity::kError) == "");
  return result.config.batch;
}

}  // namespace

TEST_CASE("the batch is the one that DeepSpeed chooses") {
  const ElasticBatch many = elastic_batch({.max_train_batch_size = 10000,
                                           .micro_batch_sizes = {8, 12, 16, 17},
                                           .min_gpus = 32,
                                           .max_gpus = 1500});
  CHECK(many.train_batch_size == 9792);
  CHECK(many.workers == std::vector<std::int64_t>{32,  34,  36,  48,  51,  64,  68,  72,
                                                  96,  102, 136, 144, 153, 192, 204, 272,
                                                  288, 306, 408, 576, 612, 816, 1224});
  CHECK(elastic_batch({.max_train_batch_size = 2000, .micro_batch_sizes = {2, 4, 6}})
            .train_batch_size == 1680);
  CHECK(elastic_batch({.max_train_batch_size = 100, .micro_batch_sizes = {8, 10, 12}})
            .train_batch_size == 96);
  CHECK(elastic_batch({.max_train_batch_size = 7, .micro_batch_sizes = {8}}).workers.empty());
  CHECK(elastic_batch({.min_gpus = 9, .max_gpus = 8}).workers.empty());
}

TEST_CASE("version 0.2 counts nodes, and the ranks of a node that split the model as one worker") {
  const ElasticBatch batch = elastic_batch({.max_train_batch_size = 100,
                                            .micro_batch_sizes = {1, 2},
                                            .max_gpus = 32,
                                            .num_gpus_per_node = 8,
                                            .model_parallel_size = 2});
  CHECK(batch.train_batch_size == 96);  // 24 for each of the 4 workers of a node
  CHECK(batch.workers == std::vector<std::int64_t>{4, 8, 12, 16});
}

TEST_CASE("any valid number of workers shares the same batch, in the largest micro-batches") {
  for (const auto& [world, micro, steps] :
       {std::array{1, 3, 8}, {2, 3, 4}, {4, 3, 2}, {8, 3, 1}, {12, 2, 1}, {24, 1, 1}}) {
    const BatchConfig batch = batch_of(elastic(""), world);
    CHECK(batch.train_batch_size == 24);
    CHECK(batch.micro_batch_size == micro);
    CHECK(batch.gradient_accumulation_steps == steps);
  }
}

TEST_CASE("every problem of the section elasticity is reported") {
  const auto says = [](const std::string& text, std::int64_t world, const std::string& what) {
    CHECK(contains(problem_text(loaded(text, world), Severity::kError), what));
  };
  says(elastic(""), 5,
       "5 workers cannot share the batch of 24 that elasticity chooses in micro-batches of ");
  says(elastic(""), 5, " | start 4 or 6 workers");
  says(elastic(R"(, "min_gpus": 5)"), 2, "2 workers would be fewer than elasticity.min_gpus = 5");
  says(elastic(R"(, "max_gpus": 1)"), 2,
       "2 workers would be more than elasticity.max_gpus = 1 | start 1 worker");
  says(elastic(R"(, "version": 0.3)"), 1, "elasticity.version = 0.3 is not known");
  says(elastic(R"(, "version": 0.1, "model_parallel_size": 4)"), 4, "has no model_parallel_size");
  says(elastic(R"(, "num_gpus_per_node": 8, "model_parallel_size": 16)"), 16,
       "model_parallel_size = 16 does not divide num_gpus_per_node = 8");
  says(elastic(R"(, "num_gpus_per_node": 8, "model_parallel_size": 4)"), 8,
       "model_parallel_size = 4, but 1 rank split the model");
  says(elastic(R"(, "min_gpus": 33)"), 33, "no batch of up to 32 samples can be shared by 33");
  says(elastic(R"(, "min_gpus": -1)"), 1, "min_gpus");
  says(elastic("", R"(, "train_batch_size": 32)"), 1,
       "train_batch_size = 32, but elasticity chooses 24");
  for (const char* sizes : {"[1, 4, -1]", "5", R"(["a", null, 0.5])", "[2, 0.5, 4]", "[]"})
    says(fmt::format(R"({{"elasticity": {{"enabled": true, "max_train_batch_size": 32,
                         "micro_batch_sizes": {}}}}})",
                     sizes),
         1, "micro_batch_sizes");
  for (const char* key : {"max_train_batch_size", "micro_batch_sizes"})
    says(R"({"elasticity": {"enabled": true}})", 1, fmt::format("needs elasticity.{}", key));
}

TEST_CASE("batch sizes that are also given are ignored if the section says so, or if they agree") {
  CHECK(batch_of(elastic(R"(, "ignore_non_elastic_batch_info": true)",
                         R"(, "train_batch_size": 32, "gradient_accumulation_steps": 5)"),
                 4)
            .train_batch_size == 24);
  CHECK(batch_of(
            elastic("", R"(, "train_batch_size": "auto", "train_micro_batch_size_per_gpu": 3)"), 4)
            .gradient_accumulation_steps == 2);
}
