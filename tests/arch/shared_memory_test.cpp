#include "hgtrain/arch/shared_memory.h"

#include <catch2/catch.hpp>

#include "hgtrain/arch/memory.h"
#include "hgtrain/config/config.h"
#include "hgtrain/parallel/shared_pieces.h"

#include "models.h"

using namespace hgt;

namespace {

constexpr std::int64_t kPieces = kSharedTurns * kSharedPieceBytes;  ///< of a rank that sends

/// A job of so many data-parallel ranks, without saves in the background.
Config job(int data_ranks, const ParallelismConfig& parallelism = {}) {
  Config config;
  config.model = llama3_8b();
  config.hardware.device = "cpu";
  config.training.seq_length = 1024;
  config.batch = {
      .train_batch_size = data_ranks, .micro_batch_size = 1, .gradient_accumulation_steps = 1};
  config.parallelism = parallelism;
  config.checkpoint.async_save = false;
  return config;
}

std::int64_t mapped(const Config& config, int stage = 0) {
  return shared_memory(config, stage).mapped;
}

std::int64_t in_table(const Config& config) {
  for (const Allocation& row : memory_table(config, 1))
    if (row.name == "memory shared with other workers") return row.bytes;
  return 0;
}

}  // namespace

TEST_CASE("a worker shares memory with those of each of its groups") {
  CHECK(mapped(job(1)) == 0);
  CHECK(mapped(job(2)) == 2 * kPieces);
  CHECK(mapped(job(4)) == 4 * kPieces);
  CHECK(mapped(job(1, {.tensor_parallel_size = 2})) == 2 * kPieces);
  CHECK(mapped(job(2, {.tensor_parallel_size = 2})) == (2 + 2) * kPieces);
  CHECK(mapped(job(2, {.context_parallel_size = 2})) == (4 + 2) * kPieces);
  CHECK(in_table(job(2)) == 2 * kPieces);
}

TEST_CASE("in a pipeline a worker shares memory with the neighbouring stages") {
  for (const bool tied : {false, true}) {
    Config config = job(1, {.pipeline_parallel_size = 3});
    config.model.tie_word_embeddings = tied;
    const std::int64_t end = tied ? 2 : 0;  // the ends sum the gradients of the embedding
    CHECK(mapped(config, 0) == (2 + end) * kPieces);
    CHECK(mapped(config, 1) == 4 * kPieces);
    CHECK(mapped(config, 2) == (2 + end) * kPieces);
    config.parallelism.virtual_pipeline_stages = 2;
    CHECK(mapped(config, 0) == (4 + end) * kPieces);
  }
}

TEST_CASE("messages that do not fill a piece use less of it") {
  Config config = job(1, {.pipeline_parallel_size = 2});
  config.model = gpt2_124m();
  config.model.tie_word_embeddings = false;
  config.training.seq_length = 16;
  CHECK(mapped(config) == 2 * kSharedTurns * 16 * 768 * 4);
}

TEST_CASE("tensor ranks that save in the background share memory for that, too") {
  Config config = job(1, {.tensor_parallel_size = 2});
  config.checkpoint.async_save = true;
  CHECK(mapped(config) == 2 * 2 * kPieces);
}

TEST_CASE("workers on GPUs or over TCP share no memory") {
  Config config = job(2);
  config.distributed.backend = "gloo";
  CHECK(mapped(config) == 0);
  config = job(2);
  config.hardware.device = "cuda";
  CHECK(mapped(config) == 0);
}

TEST_CASE("each worker has its share of what the group has") {
  CHECK(shared_memory(job(4), 0).share == kPieces);
  CHECK(shared_memory(job(1, {.pipeline_parallel_size = 2}), 0).share ==
        mapped(job(1, {.pipeline_parallel_size = 2})) / 2);
}
