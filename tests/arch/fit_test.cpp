#include "hgtrain/arch/fit.h"

#include <catch2/catch.hpp>

#include "hgtrain/arch/memory.h"
#include "hgtrain/config/config.h"

#include "models.h"

using namespace hgt;

namespace {

Config job() {
  Config config;
  config.model = gpt2_124m();
  config.hardware.device = "cpu";
  config.hardware.threads = 1;
  config.training.seq_length = 1024;
  config.batch = {.train_batch_size = 16, .micro_batch_size = 4, .gradient_accumulation_steps = 4};
  return config;
}

Fits fits_in(std::int64_t bytes) {
  return [bytes](const Config& config) { return bytes_of(config) <= bytes; };
}

std::string hint(const Config& config, std::int64_t bytes, DType narrow = DType::kBF16) {
  return how_to_fit(config, fits_in(bytes), narrow);
}

bool has(const std::string& text, const std::string& part) {
  UNSCOPED_INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the largest micro-batch that fits divides the samples of a worker") {
  const Config config = job();
  const std::int64_t four = bytes_of(config);
  CHECK(largest_micro_batch(config, fits_in(four)) == 4);
  CHECK(largest_micro_batch(config, fits_in(four - 1)) == 2);  // 3 do not divide 16
  CHECK(largest_micro_batch(config, fits_in(four), 4) == 2);
  CHECK(largest_micro_batch(config, fits_in(1 << 30)) == 0);
  CHECK(largest_micro_batch(config, fits_in(std::int64_t{1} << 40)) == 16);
}

TEST_CASE("a machine has the memory of all its workers") {
  const Config config = job();
  CHECK(machine_bytes(config, 1) > bytes_of(config));
  CHECK(machine_bytes(config, 3) == 3 * machine_bytes(config, 1));
}

TEST_CASE(
    "settings that suffice alone are named, the cheapest first, without those that are already "
    "on") {
  Config config = job();
  const std::int64_t bytes = bytes_of(config) - 1;
  CHECK(hint(config, bytes) ==
        "it fits with train_micro_batch_size_per_gpu = 2; or with checkpoint.async_save = false; "
        "or with bf16.enabled = true; or with activation_checkpointing.mode = \"selective\"");
  config.recompute.mode = "full";
  config.checkpoint.async_save = false;
  const std::string fewer = hint(config, bytes_of(config) - 1);
  CHECK_FALSE(has(fewer, "activation_checkpointing"));
  CHECK_FALSE(has(fewer, "async_save"));
  config.precision.bf16 = true;
  const std::string masters = hint(config, bytes_of(config) - 1);
  CHECK_FALSE(has(masters, "bf16.enabled"));
  CHECK(has(masters, "bf16.bf16_optimizer_states = true"));
  config.precision.bf16_parameters = config.precision.bf16_state = true;
  config.batch = {.train_batch_size = 16, .micro_batch_size = 1, .gradient_accumulation_steps = 16};
  CHECK(hint(config, bytes_of(config) - 1) ==
        "no setting makes it fit: use a smaller model, or more memory");
}

TEST_CASE("with several workers, the hint names the first stage of ZeRO and the splits that fit") {
  Config config = job();  // nothing is saved by other means
  config.recompute.mode = "full";
  config.checkpoint.async_save = false;
  config.precision.bf16 = config.precision.bf16_parameters = config.precision.bf16_state = true;
  config.batch = {.train_batch_size = 16, .micro_batch_size = 1, .gradient_accumulation_steps = 2};
  const auto with = [&](std::int64_t stage, ParallelismConfig split) {
    Config other = config;
    other.zero.stage = stage;
    other.parallelism = split;
    other.batch.gradient_accumulation_steps =
        2 * split.tensor_parallel_size * split.pipeline_parallel_size;
    return bytes_of(other);
  };
  CHECK(hint(config, with(0, {}) - 1) ==
        "it fits with zero_optimization.stage = 1; or with parallelism.tensor_parallel_size = 2; "
        "or with parallelism.context_parallel_size = 2; or with "
        "parallelism.pipeline_parallel_size = 2");
  CHECK(has(hint(config, with(2, {})), "it fits with zero_optimization.stage = 2; or"));
  const std::string four = hint(config, with(0, {.tensor_parallel_size = 4}));
  CHECK(has(four, "parallelism.tensor_parallel_size = 4"));
  CHECK_FALSE(has(four, "parallelism.tensor_parallel_size = 2"));
  CHECK_FALSE(has(four, "parallelism.tensor_parallel_size = 8"));  // of 12 heads
  config.zero.stage = 3;                                           // no pipeline goes with it
  CHECK_FALSE(has(hint(config, with(3, {}) - 1), "pipeline_parallel_size"));
  config.zero.stage = 0;
  config.parallelism.tensor_parallel_size = 2;
  config.batch.gradient_accumulation_steps = 4;
  CHECK(has(hint(config, bytes_of(config) - 1), "parallelism.sequence_parallel = true"));
  config.parallelism.sequence_parallel = true;
  CHECK_FALSE(has(hint(config, bytes_of(config) - 1), "sequence_parallel"));
}

TEST_CASE("if no setting suffices alone, pairs are named, or one change of more") {
  Config both = job();
  both.precision.bf16 = both.precision.bf16_parameters = both.precision.bf16_state = true;
  both.recompute.mode = "full";
  CHECK(hint(job(), bytes_of(both)) ==
        "it fits with activation_checkpointing.mode = \"full\" and bf16.enabled, "
        "bf16.bf16_master_weights_and_grads and bf16.bf16_optimizer_states = true");
  Config least = job();
  least.recompute.mode = "full";
  least.checkpoint.async_save = false;
  least.precision.bf16 = least.precision.bf16_parameters = least.precision.bf16_state = true;
  least.batch = {.train_batch_size = 16, .micro_batch_size = 1, .gradient_accumulation_steps = 16};
  CHECK(hint(job(), bytes_of(least)) ==
        "it fits with train_micro_batch_size_per_gpu = 1 and checkpoint.async_save = false and "
        "activation_checkpointing.mode = \"full\" and bf16.enabled, "
        "bf16.bf16_master_weights_and_grads and bf16.bf16_optimizer_states = true");
}

TEST_CASE(
    "fp16 is suggested for a device without bf16, and recomputing all layers if only some are") {
  Config config = job();
  config.recompute = {"full", 2};
  config.checkpoint.async_save = false;
  const std::string text = hint(config, bytes_of(config) - 1, DType::kF16);
  CHECK(has(text, "fp16.enabled = true"));
  CHECK_FALSE(has(text, "bf16"));
  CHECK(has(text, "with num_layers = 0"));
}

TEST_CASE("a GPU may offload to the host's memory, and says so once") {
  Config config = job();
  config.precision.bf16 = config.precision.bf16_parameters = config.precision.bf16_state = true;
  config.recompute.mode = "full";
  config.batch = {.train_batch_size = 16, .micro_batch_size = 1, .gradient_accumulation_steps = 16};
  CHECK_FALSE(has(hint(config, bytes_of(config) - 1), "offload"));
  config.hardware.device = "cuda";
  CHECK(hint(config, bytes_of(config) - 1) ==
        "it fits with zero_optimization.offload_optimizer.device = \"cpu\"");
  config.zero.offload_optimizer = "cpu";
  CHECK_FALSE(has(hint(config, bytes_of(config) - 1), "offload"));
}

TEST_CASE("other settings that are known to suffice come first") {
  const Config config = job();
  CHECK(how_to_fit(config, fits_in(1000), DType::kBF16, {"--num_workers 1"}) ==
        "it fits with --num_workers 1");
}
