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

std::int64_t bytes_of(const Config& config) {
  return total_bytes(memory_table(config, 1));
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

TEST_CASE("tensor ranks may split the rows of activations") {
  Config config = job();
  config.parallelism.tensor_parallel_size = 2;
  CHECK(has(hint(config, bytes_of(config) - 1), "parallelism.sequence_parallel = true"));
  config.parallelism.sequence_parallel = true;
  CHECK_FALSE(has(hint(config, bytes_of(config) - 1), "sequence_parallel"));
}

TEST_CASE("each setting that suffices is named, unless it is already on") {
  Config config = job();
  const std::int64_t bytes = bytes_of(config) - 1;
  const std::string all = hint(config, bytes);
  CHECK(has(all, "train_micro_batch_size_per_gpu = 2"));
  CHECK(has(all, "activation_checkpointing.mode = \"full\""));
  CHECK(has(all, "bf16.enabled = true"));
  CHECK(has(all, "checkpoint.async_save = false"));
  config.recompute.mode = "full";
  config.checkpoint.async_save = false;
  const std::string fewer = hint(config, bytes_of(config) - 1);
  CHECK_FALSE(has(fewer, "activation_checkpointing"));
  CHECK_FALSE(has(fewer, "async_save"));
  config.precision.bf16 = true;
  const std::string masters = hint(config, bytes_of(config) - 1);
  CHECK_FALSE(has(masters, "bf16.enabled = true"));
  CHECK(has(masters, "bf16.bf16_optimizer_states"));
  config.precision.bf16_parameters = config.precision.bf16_state = true;
  config.batch = {.train_batch_size = 16, .micro_batch_size = 1, .gradient_accumulation_steps = 16};
  CHECK(hint(config, bytes_of(config) - 1) ==
        "no setting makes it fit: use a smaller model, or more memory");
}

TEST_CASE(
    "fp16 is suggested for a device without bf16, and recomputing all layers if only some are") {
  Config config = job();
  config.recompute = {"full", 2};
  const std::string text = hint(config, bytes_of(config) - 1, DType::kF16);
  CHECK(has(text, "fp16.enabled = true"));
  CHECK_FALSE(has(text, "bf16"));
  CHECK(has(text, "with num_layers = 0"));
}

TEST_CASE("a GPU may offload to the host's memory, at a stage that keeps no gradients") {
  Config config = job();
  CHECK_FALSE(has(hint(config, bytes_of(config) - 1), "offload"));
  config.hardware.device = "cuda";
  const std::string advice = hint(config, bytes_of(config) - 1);
  CHECK(has(advice, "zero_optimization.stage = 2 with offload_optimizer.device = \"cpu\""));
  config.zero.stage = 3;
  CHECK(has(hint(config, bytes_of(config) - 1), "zero_optimization.offload_optimizer.device"));
  config.zero.offload_optimizer = "cpu";
  CHECK_FALSE(has(hint(config, bytes_of(config) - 1), "offload"));
  config.zero = {};
  config.parallelism.pipeline_parallel_size = 2;  // it has no stage above 1
  CHECK(has(hint(config, bytes_of(config) - 1),
            "zero_optimization.stage = 1 with offload_optimizer.device = \"cpu\""));
}

TEST_CASE("if settings suffice only together, all are named") {
  Config least = job();
  least.recompute.mode = "full";
  least.checkpoint.async_save = false;
  least.precision.bf16 = least.precision.bf16_parameters = least.precision.bf16_state = true;
  least.batch = {.train_batch_size = 16, .micro_batch_size = 1, .gradient_accumulation_steps = 16};
  CHECK(hint(job(), bytes_of(least)) ==
        "it fits with all of these: activation_checkpointing.mode = \"full\"; bf16.enabled, "
        "bf16.bf16_master_weights_and_grads and bf16.bf16_optimizer_states = true; "
        "checkpoint.async_save = false; train_micro_batch_size_per_gpu = 1");
}

TEST_CASE("other settings that are known to suffice come first") {
  const Config config = job();
  CHECK(how_to_fit(config, fits_in(1000), DType::kBF16, {"--num_workers 1"}) ==
        "--num_workers 1 fits");
}
