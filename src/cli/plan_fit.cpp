#include "plan_fit.h"

#include <vector>

#include <fmt/format.h>

#include "hgtrain/arch/fit.h"
#include "hgtrain/arch/gpu_scratch.h"
#include "hgtrain/arch/memory.h"
#include "hgtrain/arch/pipeline_split.h"
#include "hgtrain/base/error.h"
#include "hgtrain/machine/visible_gpus.h"
#include "hgtrain/parallel/rank_plan.h"
#include "hgtrain/report/human.h"

#include "check_flags.h"
#include "known_gpu.h"

namespace hgt {
namespace {

/// "--num_workers 2": fewer workers that fit with the same micro-batch; empty if there are none.
std::vector<std::string> fewer_workers(const TrainPlan& plan, std::int64_t room) {
  Config config = plan.config;
  BatchConfig& batch = config.batch;
  const std::int64_t micros = batch.train_batch_size / batch.micro_batch_size;
  const Layout layout = layout_of(config);
  const int model =
      layout.world_size() / layout.data_size;  // workers that share one copy of the model
  for (int workers = plan.workers - model; workers > 0; workers -= model) {
    const int groups = workers / model;
    batch.gradient_accumulation_steps = micros / groups;
    if (micros % groups == 0 && machine_bytes(config, workers) <= room)
      return {fmt::format("--num_workers {}", workers)};
  }
  return {};
}

void require_kernels(const KnownGpu& gpu, const std::string& name) {
  constexpr int kOldest = 70;
  if (gpu.compute_capability == 0 || gpu.compute_capability >= kOldest) return;
  throw Error(ErrorKind::kDevice,
              fmt::format("{} has compute capability {}.{}, and hgtrain's kernels need 7.0", name,
                          gpu.compute_capability / 10, gpu.compute_capability % 10),
              "use a GPU of the generations Volta (V100), Turing (T4, RTX 20, GTX 16) or newer");
}

/// Nullopt without a pipeline or such a micro-batch.
std::optional<double> idle_share_with(Config config, std::int64_t micro_batch) {
  if (config.parallelism.pipeline_parallel_size == 1 || micro_batch == 0) return std::nullopt;
  BatchConfig& batch = config.batch;
  batch.gradient_accumulation_steps =
      batch.micro_batch_size * batch.gradient_accumulation_steps / micro_batch;
  return pipeline_idle_share(config);
}

PlanFit fit_gpu(const Config& config, const std::string& name) {
  const KnownGpu gpu = known_gpu(name);
  require_kernels(gpu, name);
  const std::int64_t room = gpu.bytes - kGpuContextBytes;
  const Fits fits = [&](const Config& other) { return worker_bytes(other) <= room; };
  PlanFit fit{.gpu = name,
              .asked = worker_bytes(config),
              .room = room,
              .largest_micro_batch = largest_micro_batch(config, fits)};
  fit.idle_share = idle_share_with(config, fit.largest_micro_batch);
  if (!fit.fits())
    fit.hint =
        how_to_fit(config, fits, has_bf16(gpu.compute_capability) ? DType::kBF16 : DType::kF16);
  return fit;
}

PlanFit fit_cpu(const TrainPlan& plan, std::int64_t room) {
  const Fits fits = [&](const Config& other) { return machine_bytes(other, plan.workers) <= room; };
  PlanFit fit{.asked = machine_bytes(plan.config, plan.workers),
              .room = room,
              .largest_micro_batch = largest_micro_batch(plan.config, fits)};
  fit.idle_share = idle_share_with(plan.config, fit.largest_micro_batch);
  if (!fit.fits())
    fit.hint = how_to_fit(plan.config, fits, DType::kBF16, fewer_workers(plan, room));
  return fit;
}

}  // namespace

std::string PlanFit::text() const {
  const auto [asked_text, room_text] = human_bytes(asked, room);
  return fmt::format(
      "{:<11} {}: {}{} of {}{}; the largest micro-batch that divides this batch and fits: {}{}\n",
      "fits " + (gpu.empty() ? "here" : gpu), fits() ? "yes" : "no", asked_text,
      gpu.empty() ? fmt::format(", with {} for each worker's program,", human_bytes(kProcessBytes))
                  : "",
      room_text, gpu.empty() ? " that are free" : "",
      largest_micro_batch > 0 ? fmt::to_string(largest_micro_batch) : "none",
      idle_share ? fmt::format(", with which stages idle {:.0f} % of the time", 100 * *idle_share)
                 : "");
}

void PlanFit::require() const {
  if (fits()) return;
  const auto [asked_text, room_text] = human_bytes(asked, room);
  throw Error(ErrorKind::kDevice,
              fmt::format("the job does not fit {}: it takes {} of {}memory, and {} are free",
                          gpu.empty() ? "this machine" : gpu, asked_text,
                          gpu.empty() ? "the CPU's " : "", room_text),
              hint);
}

std::optional<PlanFit> fit_of(const TrainPlan& plan, const std::string& gpu) {
  if (!gpu.empty()) return fit_gpu(plan.config, gpu);
  const std::int64_t room = free_memory();
  if (plan.config.hardware.device != "cpu" || room == 0) return std::nullopt;
  return fit_cpu(plan, room);
}

void require_room_to_offload(const TrainPlan& plan) {
  const std::int64_t asked = offloaded_bytes(plan.config, plan.workers), room = free_memory();
  if (room == 0 || asked <= room) return;
  const auto [asked_text, room_text] = human_bytes(asked, room);
  throw Error(
      ErrorKind::kDevice,
      fmt::format("the workers would offload {} into this machine's memory, and {} are free",
                  asked_text, room_text),
      "use fewer workers or a smaller model, or set zero_optimization.offload_optimizer.device and "
      "offload_param.device to \"none\"");
}

}  // namespace hgt
