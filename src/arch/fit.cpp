#include "hgtrain/arch/fit.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/arch/memory.h"
#include "hgtrain/arch/shared_memory.h"
#include "hgtrain/base/checked.h"
#include "hgtrain/base/error.h"
#include "hgtrain/config/config.h"
#include "hgtrain/parallel/rank_plan.h"

namespace hgt {
namespace {

/// A setting that saves memory.
struct Saving {
  std::string setting;
  std::function<void(Config&)> apply;
  bool contained = false;  ///< part of another option
};

/// The settings that are not on yet.
std::vector<Saving> savings_of(const Config& config, DType narrow) {
  std::vector<Saving> out;
  const PrecisionConfig& precision = config.precision;
  const auto& [mode, layers] = config.recompute;
  if (mode != "full" || (layers > 0 && layers < config.model.num_hidden_layers))
    out.push_back({layers > 0 ? "activation_checkpointing.mode = \"full\" with num_layers = 0"
                              : "activation_checkpointing.mode = \"full\"",
                   [](Config& c) {
                     c.recompute = {"full", 0};
                   }});
  if (precision.compute_dtype() == DType::kF32 && narrow == DType::kF16)
    out.push_back({"fp16.enabled = true", [](Config& c) { c.precision.fp16 = true; }});
  if (precision.compute_dtype() == DType::kF32 && narrow == DType::kBF16)
    out.push_back({"bf16.enabled = true", [](Config& c) { c.precision.bf16 = true; }, true});
  if ((narrow == DType::kBF16 || precision.bf16) && !precision.fp16 &&
      config.optimizer.type != "Lamb" &&
      !(precision.bf16 && precision.bf16_parameters && precision.bf16_state))
    out.push_back(
        {"bf16.enabled, bf16.bf16_master_weights_and_grads and "
         "bf16.bf16_optimizer_states = true",
         [](Config& c) {
           c.precision.bf16 = true;
           c.precision.bf16_parameters = c.precision.bf16_state = true;
         }});
  const std::int64_t stages = config.parallelism.pipeline_parallel_size;
  const int most = stages > 1 ? 1 : 3;  // of ZeRO's stages
  if (ranks_of(config) > 1 && config.zero.stage < most)
    out.push_back({fmt::format("zero_optimization.stage = {}", most),
                   [most](Config& c) { c.zero.stage = most; }});
  if (stages > 1 && config.parallelism.pipeline_schedule != "1f1b")
    out.push_back({config.parallelism.virtual_pipeline_stages > 1
                       ? "parallelism.pipeline_schedule = \"1f1b\" with virtual_pipeline_stages = 1"
                       : "parallelism.pipeline_schedule = \"1f1b\"",
                   [](Config& c) {
                     c.parallelism.pipeline_schedule = "1f1b";
                     if (c.parallelism.virtual_pipeline_stages == 1) return;
                     c.parallelism.virtual_pipeline_stages = 1;
                     c.parallelism.pipeline_layer_split = {};  // it was that of virtual stages
                   }});
  if (config.parallelism.tensor_parallel_size > 1 && !config.parallelism.sequence_parallel)
    out.push_back({"parallelism.sequence_parallel = true",
                   [](Config& c) { c.parallelism.sequence_parallel = true; }});
  if (config.hardware.device == "cuda" && config.zero.offload_optimizer == "none") {
    const std::int64_t stage = std::max<std::int64_t>(config.zero.stage, std::min(most, 2));
    const std::string offload = "offload_optimizer.device = \"cpu\"";
    out.push_back({config.zero.stage < stage
                       ? fmt::format("zero_optimization.stage = {} with {}", stage, offload)
                       : "zero_optimization." + offload,
                   [stage](Config& c) {
                     c.zero.stage = stage;
                     c.zero.offload_optimizer = "cpu";
                   }});
  }
  if (config.hardware.device != "cuda" && config.checkpoint.async_save)
    out.push_back(
        {"checkpoint.async_save = false", [](Config& c) { c.checkpoint.async_save = false; }});
  return out;
}

/// Of what a worker of each stage takes.
template <class BytesOfStage>
std::int64_t sum_over_workers(const Config& config, int workers, const BytesOfStage& bytes) {
  const auto stages = static_cast<int>(config.parallelism.pipeline_parallel_size);
  std::int64_t pipeline = 0;
  for (int stage = 0; stage < stages; ++stage) pipeline += bytes(stage);
  return checked_mul(pipeline, workers / stages, "the memory of all workers", ErrorKind::kConfig);
}

std::string micro_batch(std::int64_t samples) {
  return fmt::format("train_micro_batch_size_per_gpu = {}", samples);
}

}  // namespace

std::int64_t machine_bytes(const Config& config, int workers) {
  constexpr std::int64_t kProcessBytes = 16 << 20;
  const auto threads = static_cast<int>(config.hardware.threads);
  return sum_over_workers(config, workers, [&](int stage) {
    const SharedMemory shared = shared_memory(config, stage);
    return total_bytes(memory_table(config, threads, stage)) - shared.mapped + shared.share +
           kProcessBytes;
  });
}

std::int64_t offloaded_bytes(const Config& config, int workers) {
  return sum_over_workers(config, workers,
                          [&](int stage) { return total_bytes(offloaded_memory(config, stage)); });
}

std::int64_t largest_micro_batch(const Config& config, const Fits& fits, std::int64_t below) {
  const std::int64_t samples =
      config.batch.micro_batch_size * config.batch.gradient_accumulation_steps;
  Config other = config;
  for (std::int64_t steps = std::max<std::int64_t>(samples / below, 1); steps <= samples; ++steps) {
    if (samples % steps != 0 || samples / steps >= below) continue;
    other.batch.micro_batch_size = samples / steps;
    other.batch.gradient_accumulation_steps = steps;
    if (fits(other)) return other.batch.micro_batch_size;
  }
  return 0;
}

std::string how_to_fit(const Config& config, const Fits& fits, DType narrow,
                       std::vector<std::string> others) {
  std::vector<std::string> enough = std::move(others), all;
  const std::int64_t now = config.batch.micro_batch_size;
  if (const std::int64_t smaller = largest_micro_batch(config, fits, now); smaller > 0)
    enough.push_back(micro_batch(smaller));
  Config every = config;
  for (const Saving& saving : savings_of(config, narrow)) {
    Config one = config;
    saving.apply(one);
    saving.apply(every);
    if (fits(one)) enough.push_back(saving.setting);
    if (!saving.contained) all.push_back(saving.setting);
  }
  if (!enough.empty())
    return fmt::format("{} fit{}", fmt::join(enough, ", or "), enough.size() > 1 ? "" : "s");
  const std::int64_t largest = largest_micro_batch(every, fits);
  if (largest == 0) return "no setting makes it fit: use a smaller model, or more memory";
  if (largest < now) all.push_back(micro_batch(largest));
  return fmt::format("it fits with all of these: {}", fmt::join(all, "; "));
}

}  // namespace hgt
