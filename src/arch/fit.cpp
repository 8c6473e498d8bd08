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
#include "hgtrain/config/layout_rules.h"
#include "hgtrain/parallel/rank_plan.h"

namespace hgt {
namespace {

/// What a setting changes. A change has at most one setting for each subject, so that none
/// contradicts another.
enum class Subject {
  kBatch,
  kZero,
  kSaving,
  kPrecision,
  kRecompute,
  kRows,
  kSchedule,
  kTensor,
  kContext,
  kPipeline
};

/// A setting that saves memory.
struct Saving {
  Subject subject;
  std::string setting;
  std::function<void(Config&)> apply;
};

std::string micro_batch(std::int64_t samples) {
  return fmt::format("train_micro_batch_size_per_gpu = {}", samples);
}

/// The savings that a config does not have yet, the cheapest in time first.
class Savings {
 public:
  Savings(const Config& config, DType narrow) : config_(config), narrow_(narrow) {
    add_micro_batches();
    add_zero(1);
    if (!on_gpu_ && config.checkpoint.async_save)
      add(Subject::kSaving, "checkpoint.async_save = false",
          [](Config& c) { c.checkpoint.async_save = false; });
    add_narrow();
    if (config.recompute.mode == "none") add_recompute("selective");
    add_zero(2);
    add_schedule();
    if (config.parallelism.tensor_parallel_size > 1 && !config.parallelism.sequence_parallel)
      add(Subject::kRows, "parallelism.sequence_parallel = true",
          [](Config& c) { c.parallelism.sequence_parallel = true; });
    if (config.recompute.mode != "full" || recomputes_some()) add_recompute("full");
    add_zero(3);
    using P = ParallelismConfig;
    for (int factor = 2; factor <= ranks_of(config); ++factor) {
      add_split(Subject::kTensor, "tensor_parallel_size", &P::tensor_parallel_size, factor);
      add_split(Subject::kContext, "context_parallel_size", &P::context_parallel_size, factor);
      add_split(Subject::kPipeline, "pipeline_parallel_size", &P::pipeline_parallel_size, factor);
    }
    add_narrow_state();
    if (on_gpu_ && config.zero.offload_optimizer == "none")
      for (std::int64_t stage = config_.zero.stage; stage <= max_zero_stage(); ++stage)
        add_offload(stage);
  }

  const std::vector<Saving>& all() const { return all_; }

 private:
  void add(Subject subject, std::string setting, std::function<void(Config&)> apply) {
    all_.push_back({subject, std::move(setting), std::move(apply)});
  }
  bool recomputes_some() const {
    return config_.recompute.num_layers > 0 &&
           config_.recompute.num_layers < config_.model.num_hidden_layers;
  }
  std::int64_t max_zero_stage() const {
    return config_.parallelism.pipeline_parallel_size > 1 ? 1 : 3;
  }

  void add_micro_batches() {
    const std::int64_t now = config_.batch.micro_batch_size,
                       samples = now * config_.batch.gradient_accumulation_steps;
    for (std::int64_t fewer = now - 1; fewer >= 1; --fewer)
      if (samples % fewer == 0)
        add(Subject::kBatch, micro_batch(fewer),
            [fewer](Config& c) { c.batch.micro_batch_size = fewer; });
  }

  void add_zero(std::int64_t stage) {
    if (config_.zero.stage < stage && layout_of(config_).group_size() > 1)
      add(Subject::kZero, fmt::format("zero_optimization.stage = {}", stage),
          [stage](Config& c) { c.zero.stage = stage; });
  }

  void add_narrow() {
    if (config_.precision.compute_dtype() != DType::kF32) return;
    if (narrow_ == DType::kF16)
      add(Subject::kPrecision, "fp16.enabled = true", [](Config& c) { c.precision.fp16 = true; });
    else
      add(Subject::kPrecision, "bf16.enabled = true", [](Config& c) { c.precision.bf16 = true; });
  }

  void add_narrow_state() {
    const PrecisionConfig& now = config_.precision;
    const bool has_bf16 = (narrow_ == DType::kBF16 || now.bf16) && !now.fp16;
    if (!has_bf16 || config_.optimizer.type == "Lamb" || (now.bf16_parameters && now.bf16_state))
      return;
    add(Subject::kPrecision,
        fmt::format("{}bf16.bf16_master_weights_and_grads and bf16.bf16_optimizer_states = true",
                    now.bf16 ? "" : "bf16.enabled, "),
        [](Config& c) {
          c.precision.bf16 = c.precision.bf16_parameters = c.precision.bf16_state = true;
        });
  }

  void add_recompute(const std::string& mode) {
    add(Subject::kRecompute,
        fmt::format("activation_checkpointing.mode = \"{}\"{}", mode,
                    config_.recompute.num_layers > 0 ? " with num_layers = 0" : ""),
        [mode](Config& c) {
          c.recompute = {mode, 0};
        });
  }

  void add_schedule() {
    const ParallelismConfig& now = config_.parallelism;
    if (now.pipeline_parallel_size == 1 || now.pipeline_schedule == "1f1b") return;
    add(Subject::kSchedule,
        now.virtual_pipeline_stages > 1
            ? "parallelism.pipeline_schedule = \"1f1b\" with virtual_pipeline_stages = 1"
            : "parallelism.pipeline_schedule = \"1f1b\"",
        [](Config& c) {
          c.parallelism.pipeline_schedule = "1f1b";
          if (c.parallelism.virtual_pipeline_stages == 1) return;
          c.parallelism.virtual_pipeline_stages = 1;
          c.parallelism.pipeline_layer_split = {};  // it was that of virtual stages
        });
  }

  /// The number of workers stays the same: they form fewer groups of more workers.
  void add_split(Subject subject, const char* key, std::int64_t ParallelismConfig::*size,
                 int factor) {
    const std::int64_t more = config_.parallelism.*size * factor;
    if (ranks_of(config_) % factor == 0)
      add(subject, fmt::format("parallelism.{} = {}", key, more),
          [size, more](Config& c) { c.parallelism.*size = more; });
  }

  void add_offload(std::int64_t stage) {
    const std::string offload = "offload_optimizer.device = \"cpu\"";
    add(Subject::kZero,
        stage > config_.zero.stage
            ? fmt::format("zero_optimization.stage = {} with {}", stage, offload)
            : "zero_optimization." + offload,
        [stage](Config& c) {
          c.zero.stage = stage;
          c.zero.offload_optimizer = "cpu";
        });
  }

  const Config& config_;
  const DType narrow_;
  const bool on_gpu_ = config_.hardware.device == "cuda";
  std::vector<Saving> all_;
};

/// Several savings, each with a subject of its own.
using Change = std::vector<const Saving*>;

std::string text_of(const Change& change) {
  std::vector<std::string> settings;
  for (const Saving* saving : change) settings.push_back(saving->setting);
  return fmt::format("{}", fmt::join(settings, " and "));
}

/// Whether the job can run and fits with a change, on the same workers and with the same batch.
bool fits_with(const Config& config, const Change& change, const Fits& fits) {
  const int workers = layout_of(config).world_size();
  Config other = config;
  for (const Saving* saving : change) saving->apply(other);
  ParallelismConfig& split = other.parallelism;
  BatchConfig& batch = other.batch;
  const std::int64_t groups = workers / (split.tensor_parallel_size * split.context_parallel_size *
                                         split.pipeline_parallel_size);
  const std::int64_t samples = groups * batch.micro_batch_size;
  if (samples == 0 || batch.train_batch_size % samples != 0 || !layout_problems(other).empty())
    return false;
  batch.gradient_accumulation_steps = batch.train_batch_size / samples;
  split.data_parallel_size = groups;
  return fits(other);
}

/// The cheapest changes that suffice: of one saving each or, if none does alone, of two.
std::vector<std::string> sufficient(const Config& config, const std::vector<Saving>& savings,
                                    const Fits& fits, std::size_t max_count) {
  std::vector<std::string> out;
  std::vector<Subject> used;
  for (const Saving& saving : savings) {
    if (out.size() == max_count || std::ranges::count(used, saving.subject) > 0) continue;
    if (!fits_with(config, {&saving}, fits)) continue;
    used.push_back(saving.subject);
    out.push_back(saving.setting);
  }
  if (!out.empty()) return out;
  std::vector<std::pair<Subject, Subject>> used_pairs;
  for (std::size_t cost = 1; cost < 2 * savings.size() && out.size() < max_count; ++cost)
    for (std::size_t i = 0; 2 * i < cost; ++i) {
      const std::size_t j = cost - i;
      if (j >= savings.size() || out.size() == max_count) continue;
      const std::pair subjects{savings[i].subject, savings[j].subject};
      if (subjects.first == subjects.second || std::ranges::count(used_pairs, subjects) > 0)
        continue;
      const Change change{&savings[i], &savings[j]};
      if (!fits_with(config, change, fits)) continue;
      used_pairs.push_back(subjects);
      out.push_back(text_of(change));
    }
  return out;
}

/// A change of more savings: the cheapest are added until they suffice, then those that are not
/// needed are left out. Empty if all savings together do not suffice.
Change combined(const Config& config, const std::vector<Saving>& savings, const Fits& fits) {
  const Fits any = [](const Config&) { return true; };
  Change change;
  for (const Saving& saving : savings) {
    Change next = change;
    std::erase_if(next, [&](const Saving* other) { return other->subject == saving.subject; });
    next.push_back(&saving);
    if (!fits_with(config, next, any)) continue;
    change = std::move(next);
    if (!fits_with(config, change, fits)) continue;
    for (std::size_t i = change.size(); i-- > 0;) {
      Change fewer = change;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (fits_with(config, fewer, fits)) change = std::move(fewer);
    }
    return change;
  }
  return {};
}

/// The sum over the workers of all stages.
template <class BytesOfStage>
std::int64_t sum_over_workers(const Config& config, int workers, const BytesOfStage& bytes) {
  const auto stages = static_cast<int>(config.parallelism.pipeline_parallel_size);
  std::int64_t pipeline = 0;
  for (int stage = 0; stage < stages; ++stage) pipeline += bytes(stage);
  return checked_mul(pipeline, workers / stages, "the memory of all workers", ErrorKind::kConfig);
}

}  // namespace

std::int64_t machine_bytes(const Config& config, int workers) {
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
  constexpr std::size_t kMaxHints = 4;
  const Savings savings(config, narrow);
  std::vector<std::string> ways = std::move(others);
  for (std::string& way : sufficient(config, savings.all(), fits, kMaxHints - ways.size()))
    ways.push_back(std::move(way));
  if (ways.empty())
    if (const Change change = combined(config, savings.all(), fits); !change.empty())
      ways.push_back(text_of(change));
  if (ways.empty()) return "no setting makes it fit: use a smaller model, or more memory";
  return fmt::format("it fits with {}", fmt::join(ways, "; or with "));
}

}  // namespace hgt
