#include "plan_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hgtrain/arch/activations.h"
#include "hgtrain/arch/memory.h"
#include "hgtrain/arch/model_spec.h"
#include "hgtrain/arch/pipeline_split.h"
#include "hgtrain/arch/rank_plan.h"
#include "hgtrain/parallel/layout.h"
#include "hgtrain/parallel/rank_plan.h"
#include "hgtrain/report/human.h"

namespace hgt {
namespace {

ParameterTable parameters_of(const TrainPlan& plan) {
  return parameter_table(plan.config.model, plan.config.training.no_decay_norms_and_biases);
}

/// "843k", "1.56B": as people call a model.
std::string parameter_count(const TrainPlan& plan) {
  std::string text = human_count(static_cast<double>(parameters_of(plan).num_parameters));
  if (text.back() == 'G') text.back() = 'B';
  return text;
}

/// How the model is trained: precision and optimizer, and other settings that are not the default.
std::string how(const Config& config) {
  const PrecisionConfig& precision = config.precision;
  std::vector<std::string> words = {std::string(name_of(precision.compute_dtype()))};
  if (precision.parameter_dtype() != DType::kF32) words.push_back("no fp32 masters");
  if (precision.state_dtype() != DType::kF32) words.push_back("bf16 state");
  words.push_back(config.optimizer.type);
  const LrScheduleConfig& schedule = config.training.lr_schedule;
  if (!config.scheduler.type.empty())
    words.push_back(config.scheduler.type);
  else if (schedule.type != "constant" || schedule.warmup_iters > 0)
    words.push_back(schedule.type + " schedule");
  if (config.recompute.mode != "none") words.push_back("recompute " + config.recompute.mode);
  if (config.training.ema_decay > 0)
    words.push_back(fmt::format("ema {}", config.training.ema_decay));
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

namespace {

/// "2 workers", or "2 groups of 4 workers", which share the model.
std::string data_workers(const TrainPlan& plan) {
  const Layout layout = make_layout(plan.config.parallelism, plan.workers);
  const std::string workers = human_plural(plan.workers / layout.data_size, "worker");
  return layout.data_size == plan.workers
             ? human_plural(plan.workers, "worker")
             : fmt::format("{} of {}", human_plural(layout.data_size, "group"), workers);
}

std::string layout_line(const TrainPlan& plan) {
  const Config& config = plan.config;
  const Layout layout = make_layout(config.parallelism, plan.workers);
  std::string text =
      fmt::format("layout      data {} x context {} x tensor {} x pipeline {}", layout.data_size,
                  layout.context_size, layout.tensor_size, layout.pipeline_size);
  if (config.parallelism.sequence_parallel && layout.tensor_size > 1) text += ", sequence parallel";
  if (config.zero.stage > 0) text += fmt::format(", ZeRO stage {}", config.zero.stage);
  if (config.gradient_sum_dtype() != DType::kF32 && layout.group_size() > 1)
    text += fmt::format(", gradients sent in {}", name_of(config.gradient_sum_dtype()));
  return text + "\n";
}

/// "layers 3 to 5", with embedding and head.
std::string blocks_text(Range blocks, std::int64_t layers) {
  if (blocks.begin >= layers + 2) return "no layers";
  const Range own{std::max<std::int64_t>(blocks.begin - 1, 0), std::min(blocks.end - 1, layers)};
  std::vector<std::string> parts;
  if (blocks.begin == 0) parts.push_back("embedding");
  if (own.size() == 1) parts.push_back(fmt::format("layer {}", own.begin));
  if (own.size() > 1) parts.push_back(fmt::format("layers {} to {}", own.begin, own.end - 1));
  if (blocks.end == layers + 2) parts.push_back("head");
  return fmt::format("{}", fmt::join(parts, " and "));
}

/// The stages, and the share of the time for which they wait for each other, by their operations.
std::string pipeline_line(const Config& config) {
  const std::vector<Range> blocks = pipeline_blocks(config);
  const auto count = static_cast<std::size_t>(config.parallelism.pipeline_parallel_size);
  std::vector<std::string> stages;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::string text = blocks_text(blocks[i], config.model.num_hidden_layers);
    if (i < count)
      stages.push_back(fmt::format("stage {}: {}", i, text));
    else
      stages[i % count] += ", then " + text;
  }
  return fmt::format("pipeline    {}; {}, idle {:.0f} %\n", fmt::join(stages, ", "),
                     config.parallelism.pipeline_schedule, 100 * pipeline_idle_share(config));
}

/// How often the run reads the data; of a small part of it, two digits: "0.0031".
std::string epochs_text(const TrainPlan& plan) {
  const double epochs = static_cast<double>(plan.config.training.train_iters) *
                        static_cast<double>(plan.config.batch.train_batch_size) /
                        static_cast<double>(plan.epoch_samples);
  return epochs < 0.1 ? fmt::format("{:.2g}", epochs) : human_count(epochs);
}

}  // namespace

std::string banner(const TrainPlan& plan, const std::string& run_dir) {
  const Config& config = plan.config;
  const BatchConfig& batch = config.batch;
  const std::int64_t steps = config.training.train_iters, samples = batch.train_batch_size;
  const double tokens = static_cast<double>(samples * config.training.seq_length);
  std::string text = fmt::format(
      "model       {}, {} parameters\n"
      "workers     {} x {} on {}\n"
      "batch       {} of {} = micro-batch {} x accumulation {} x {}\n"
      "steps       {} = {} tokens",
      config.model.model_type, parameter_count(plan), plan.workers,
      human_plural(config.hardware.threads, "thread"), config.hardware.device,
      human_plural(samples, "sample"), human_plural(config.training.seq_length, "token"),
      batch.micro_batch_size, batch.gradient_accumulation_steps, data_workers(plan), steps,
      human_count(tokens * static_cast<double>(steps)));
  if (plan.epoch_samples > 0)
    text += fmt::format(", {} epochs of {}", epochs_text(plan),
                        human_plural(plan.epoch_samples, "sample"));
  text += fmt::format("\ntraining    {}\n", how(config)) + layout_line(plan);
  if (config.parallelism.pipeline_parallel_size > 1) text += pipeline_line(config);
  return text + fmt::format("run folder  {}\n", run_dir);
}

namespace {

/// Parameters whose names differ only in the number of their layer.
struct RepeatedParameter {
  std::string before, after;  ///< of the number; the whole name and "" if it has none
  std::vector<std::string> numbers;
  const Parameter* first;
};

/// "transformer.h.", "12", ".ln_1.weight".
std::array<std::string, 3> around_number(const std::string& name) {
  const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
    const std::size_t end = std::min(name.find('.', dot + 1), name.size());
    if (end > dot + 1 && std::all_of(name.begin() + dot + 1, name.begin() + end, digit))
      return {name.substr(0, dot + 1), name.substr(dot + 1, end - dot - 1), name.substr(end)};
  }
  return {name, "", ""};
}

std::string parameter_lines(const ParameterTable& table) {
  std::vector<RepeatedParameter> groups;
  std::map<std::pair<std::string, std::string>, std::size_t> known;
  for (const Parameter& p : table.parameters) {
    const auto [before, number, after] = around_number(p.name);
    const auto [it, is_new] = known.try_emplace({before, after}, groups.size());
    if (is_new) groups.push_back({before, after, {}, &p});
    groups[it->second].numbers.push_back(number);
  }
  std::string text;
  for (const RepeatedParameter& g : groups) {
    const bool many = g.numbers.size() > 1;
    const std::string number =
        many ? g.numbers.front() + "..." + g.numbers.back() : g.numbers.front();
    text += fmt::format("  {:<56} {:>14} {}{}\n", g.before + number + g.after,
                        g.first->numel * std::ssize(g.numbers),
                        many ? fmt::format("{} of ", g.numbers.size()) : "",
                        fmt::join(g.first->shape, " x "));
  }
  return text;
}

/// The kind of an allocation ("layers: qkv"), for the totals.
std::string kind_of(const std::string& allocation) {
  if (allocation.starts_with("layers: ")) return "activations";
  if (allocation == "rope tables" || allocation.starts_with("scratch")) return "scratch";
  return allocation.substr(0, allocation.find(": "));
}

std::string memory_total(const std::vector<Allocation>& memory, const std::string& whose) {
  std::vector<std::pair<std::string, std::int64_t>> kinds;
  for (const Allocation& allocation : memory) {
    const std::string kind = kind_of(allocation.name);
    if (kinds.empty() || kinds.back().first != kind) kinds.emplace_back(kind, 0);
    kinds.back().second += allocation.bytes;
  }
  std::vector<std::string> parts;
  for (const auto& [kind, bytes] : kinds)
    parts.push_back(fmt::format("{} {}", kind, human_bytes(bytes)));
  return fmt::format("memory      {} {}: {}\n", human_bytes(total_bytes(memory)), whose,
                     fmt::join(parts, ", "));
}

std::string host_memory(std::int64_t offloaded, std::int64_t for_a_save) {
  if (offloaded == 0)
    return fmt::format("host memory {} per worker, for a save\n", human_bytes(for_a_save));
  return fmt::format("host memory {} per worker: {} offloaded, {} for a save\n",
                     human_bytes(offloaded + for_a_save), human_bytes(offloaded),
                     human_bytes(for_a_save));
}

/// How many rows of logits a GPU computes at a time. The output matrix's gradient is in fp32.
std::string logits_line(const Config& config) {
  const ParallelismConfig& split = config.parallelism;
  const std::int64_t rows =
      config.batch.micro_batch_size * config.training.seq_length / split.context_parallel_size;
  const std::int64_t at_once = planned_logit_rows(config), times = (rows + at_once - 1) / at_once;
  const ModelConfig model = rank_model(config);
  return fmt::format(
      "logits      {} of {} at a time, {} a micro-batch; each time reads and writes the "
      "output "
      "matrix's gradient of {}\n",
      human_plural(at_once, "row"), model.vocab_size, human_plural(times, "time"),
      human_bytes(model.vocab_size * model.hidden_size * 4));
}

/// What a worker allocates, line by line; nothing if there is nothing.
std::string memory_lines(const std::vector<Allocation>& memory, const std::string& whose) {
  if (memory.empty()) return "";
  std::string text = fmt::format("\n{}\n", whose);
  for (const Allocation& allocation : memory)
    text += fmt::format("  {:<56} {:>14}\n", allocation.name, human_bytes(allocation.bytes));
  return text;
}

}  // namespace

std::string describe(const TrainPlan& plan, const std::string& run_dir,
                     const std::optional<PlanFit>& fit) {
  const Config& config = plan.config;
  const ParameterTable table = parameters_of(plan);
  std::string text = banner(plan, run_dir);
  if (plan.epoch_samples == 0)
    text +=
        "data        not looked at, because model.vocab_size is given; training may still refuse "
        "it\n";
  const auto stages = static_cast<int>(config.parallelism.pipeline_parallel_size);
  std::string lines;
  std::int64_t max_offloaded = 0;  // of a worker
  for (int stage = 0; stage < stages; ++stage) {
    const auto memory = memory_table(config, static_cast<int>(config.hardware.threads), stage);
    const std::string whose = stages == 1 ? "a worker" : fmt::format("a worker of stage {}", stage);
    text += memory_total(memory, whose);
    lines += memory_lines(memory, "memory of " + whose);
    const auto offloaded = offloaded_memory(config, stage);
    lines += memory_lines(offloaded, fmt::format("host memory of {}, offloaded", whose));
    max_offloaded = std::max(max_offloaded, total_bytes(offloaded));
  }
  if (config.hardware.device == "cuda") text += host_memory(max_offloaded, save_bytes(config));
  if (fit && !fit->gpu.empty()) text += logits_line(config);
  text += fmt::format("\nparameters  {}\n{}", table.num_parameters, parameter_lines(table));
  text += lines;
  text += "\nconfig\n" + to_json(config).dump(2) + "\n";
  if (fit) return text + "\n" + fit->text();
  return config.hardware.device == "cuda"
             ? text + "\nfits        not checked: name the GPU, as in --gpu h100 or --gpu 24GB\n"
             : text;
}

}  // namespace hgt
