#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/json.h"
#include "hgtrain/config/layout_rules.h"
#include "hgtrain/config/model_copies.h"

#include "batch.h"
#include "elasticity.h"
#include "layout_neighbours.h"
#include "loading.h"
#include "value.h"

namespace hgt {
namespace {

constexpr const char* kParams = "scheduler.params.";

/// Sets the parameters of a section's type to their defaults, which depend on the type.
void fill_params(Loading& loading, const std::string& section, const std::string& type) {
  for (const Field& field : find_field(section)->fields) {
    const std::string path = section + "." + field.name;
    if (goes_with(field, type) && !field.default_json.empty() && field.slot &&
        !loading.has_origin(path) && !loading.derive.contains(path))
      store(field.slot(loading.config()), parse_json<Json>(field.default_json));
  }
}

/// Fills the parameters that the scheduler's type needs and that were not given.
void resolve_scheduler(Loading& loading) {
  SchedulerConfig& scheduler = loading.config().scheduler;
  std::map<std::string, double>& numbers = scheduler.numbers;
  if (scheduler.type.empty()) return numbers.clear();
  const auto follows = [&](const std::string& name, double value, const char* from) {
    if (loading.has_origin(kParams + name)) return;
    numbers[name] = value;
    loading.set_origin(kParams + name, OriginKind::kDerived, from);
  };
  fill_params(loading, "scheduler.params", scheduler.type);
  if (scheduler.type == "WarmupLR" || loading.derive.contains("scheduler.params.warmup_max_lr"))
    follows("warmup_max_lr", loading.config().optimizer.lr, "optimizer.params.lr");
  if (scheduler.type == "OneCycle") {
    follows("cycle_second_step_size", numbers["cycle_first_step_size"], "cycle_first_step_size");
    follows("cycle_second_stair_count", numbers["cycle_first_stair_count"],
            "cycle_first_stair_count");
    for (const char* name : {"cycle_min_lr", "cycle_max_lr"})
      if (!loading.has_origin(kParams + std::string(name)))
        loading.problem_at(Severity::kError, "scheduler.type",
                           fmt::format("OneCycle needs scheduler.params.{}", name));
  }
  if (scheduler.type == "WarmupDecayLR" || scheduler.type == "WarmupCosineLR") {
    const std::int64_t steps = loading.config().training.train_iters;
    if (steps > 0)
      follows("total_num_steps", static_cast<double>(steps), "training.train_iters");
    else if (!loading.has_origin("scheduler.params.total_num_steps") &&
             loading.config().training.num_epochs == 0 &&
             !loading.refused("training.train_iters") && !loading.refused("training.num_epochs") &&
             !loading.refused("training.train_samples"))
      loading.problem_at(Severity::kMissing, "scheduler.type",
                         fmt::format("{} needs scheduler.params.total_num_steps", scheduler.type),
                         "give it, or training.train_iters");
  }
}

/// Whether the key's value was given on the command line.
bool is_typed(const Loading& loading, const char* path) {
  const auto origin = loading.origins.find(path);
  return origin != loading.origins.end() && origin->second.kind == OriginKind::kFlag;
}

/// Resolves the length of the run, which is given in one of three ways; samples become steps.
void resolve_length(Loading& loading) {
  TrainingConfig& training = loading.config().training;
  const bool steps = is_typed(loading, "training.train_iters") && training.train_iters > 0,
             samples = is_typed(loading, "training.train_samples") && training.train_samples > 0,
             epochs = is_typed(loading, "training.num_epochs") && training.num_epochs > 0;
  if (steps || samples || epochs) {  // the length on the command line overrides the file's
    if (!steps) training.train_iters = 0;
    if (!samples) training.train_samples = 0;
    if (!epochs) training.num_epochs = 0;
  }
  const int given =
      (training.train_iters > 0) + (training.train_samples > 0) + (training.num_epochs > 0);
  if (given > 1)
    loading.problem_at(Severity::kError, "training.train_iters",
                       "the length of the run is given more than once",
                       "keep one of training.train_iters, train_samples and num_epochs");
  const std::int64_t batch = loading.config().batch.train_batch_size;
  if (given == 1 && training.train_samples > 0 && batch > 0) {
    training.train_iters = (training.train_samples + batch - 1) / batch;
    loading.set_origin("training.train_iters", OriginKind::kDerived, "training.train_samples");
  }
}

void resolve_seq_length(Loading& loading) {
  Config& config = loading.config();
  const std::int64_t longest = config.model.max_position_embeddings;
  if (config.training.seq_length == 0 && longest > 0) {
    config.training.seq_length = longest;
    loading.set_origin("training.seq_length", OriginKind::kDerived,
                       "model.max_position_embeddings");
  }
}

/// A run with early stopping ends some evaluations after its best state.
void resolve_keep_best(Loading& loading) {
  const char* const path = "checkpoint.keep_best";
  const TrainingConfig& training = loading.config().training;
  if (loading.has_origin(path) || training.patience == 0 || training.eval_interval == 0) return;
  loading.config().checkpoint.keep_best = true;
  loading.set_origin(path, OriginKind::kDerived, "training.patience");
}

/// Ulysses is not built yet, but the sizes of a job are already checked for it.
std::int64_t ulysses_size(const Loading& loading) {
  return static_cast<std::int64_t>(loading.number("parallelism.sequence_parallel_size", 1));
}

/// The ranks that compute the same samples.
std::int64_t group_size(const Loading& loading) {
  return workers_of_model(loading.result.config.parallelism) * ulysses_size(loading);
}

/// The size of such a group as a product: "2 tensor ranks x 2 pipeline stages".
std::string group_factors(const Loading& loading) {
  const ParallelismConfig& p = loading.result.config.parallelism;
  std::vector<std::string> factors;
  const auto add = [&](std::int64_t size, const char* axis) {
    if (size > 1) factors.push_back(fmt::format("{} {}", size, axis));
  };
  add(p.tensor_parallel_size, "tensor ranks");
  add(p.context_parallel_size, "context ranks");
  add(ulysses_size(loading), "Ulysses ranks");
  add(p.pipeline_parallel_size, "pipeline stages");
  return fmt::format("{}", fmt::join(factors, " x "));
}

/// What keeps `world` workers from forming the groups that the config asks for, if anything does.
std::optional<LayoutProblem> world_problem(const Loading& loading, std::int64_t world) {
  const ParallelismConfig& p = loading.result.config.parallelism;
  const std::int64_t group = group_size(loading), sequence = ulysses_size(loading);
  if (world % sequence == 0 && model_copies(p, world / sequence) > 0) return std::nullopt;
  if (world % group != 0)
    return LayoutProblem{p.tensor_parallel_size > 1    ? "parallelism.tensor_parallel_size"
                         : p.context_parallel_size > 1 ? "parallelism.context_parallel_size"
                                                       : "parallelism.pipeline_parallel_size",
                         fmt::format("{} worker{} cannot form groups of {} ({})", world,
                                     world == 1 ? "" : "s", group, group_factors(loading))};
  return LayoutProblem{
      "parallelism.data_parallel_size",
      group == 1 ? fmt::format("parallelism.data_parallel_size = {}, but there {} {} worker{}",
                               p.data_parallel_size, world == 1 ? "is" : "are", world,
                               world == 1 ? "" : "s")
                 : fmt::format("parallelism.data_parallel_size = {}, but {} workers are {} group{} "
                               "of {} ({})",
                               p.data_parallel_size, world, world / group,
                               world == group ? "" : "s", group, group_factors(loading))};
}

/// Adds hints about what to set. Values of the same key become one text: "set parallelism.x = 4 or
/// 2".
void add_ways(const std::vector<std::string>& settings, std::vector<std::string>& ways) {
  const auto sets_more = [](const std::string& way) {
    return way.find(" and ") != std::string::npos;
  };
  for (const std::string& setting : settings) {
    const std::string way = "set " + setting;
    const std::size_t value = way.find(" = ") + 3;
    const auto known = std::ranges::find_if(ways, [&](const std::string& other) {
      return !sets_more(way) && !sets_more(other) && other.starts_with(way.substr(0, value));
    });
    if (known == ways.end())
      ways.push_back(way);
    else
      *known += " or " + way.substr(value);
  }
}

/// Reports everything that is wrong with the layout, with working layouts in the last problem's
/// hint. False if the workers cannot be laid out, so that batches cannot be checked.
bool check_layout(Loading& loading, const LoadOptions& options) {
  const Config& config = loading.config();
  const std::int64_t world = options.world_size.value_or(0);
  std::vector<LayoutProblem> problems =
      layout_problems(config, [&](const std::string& key) { return loading.model_key(key); });
  std::vector<std::string> ways;
  if (const auto misfit = world > 0 ? world_problem(loading, world) : std::nullopt) {
    const std::int64_t group = group_size(loading),
                       groups = std::max<std::int64_t>(config.parallelism.data_parallel_size, 1);
    if (problems.empty())
      ways.push_back(config.parallelism.data_parallel_size > 0
                         ? fmt::format("start {} workers", groups * group)
                         : fmt::format("start a multiple of {} workers", group));
    problems.push_back(*misfit);
  }
  if (problems.empty()) return true;
  BatchConfig batch = config.batch;
  if (batch.train_batch_size == 0) batch.train_batch_size = options.resumed_batch_size.value_or(0);
  const auto fits_batch = [&](std::int64_t groups) {
    return (batch.train_batch_size == 0 && batch.micro_batch_size == 0) ||
           !check_batch(batch, groups, "");
  };
  const std::int64_t ulysses = ulysses_size(loading);
  if (world % ulysses == 0) add_ways(neighbours_of(config, world / ulysses, fits_batch), ways);
  if (world > 0 && ways.empty()) {
    add_ways(neighbours_of(config, 0, fits_batch), ways);
    if (!ways.empty()) ways.front() = "with another number of workers, " + ways.front();
  }
  const std::string hint = fmt::format("{}", fmt::join(ways, ", or "));
  for (const LayoutProblem& problem : problems)
    loading.problem_at(Severity::kError, problem.key, problem.message,
                       &problem == &problems.back() ? hint : "");
  return world == 0 || !world_problem(loading, world);
}

/// Sets the data-parallel size; returns its derivation, "8 workers form 4 groups of 2 (2 tensor
/// ranks)", or "" if it is the number of workers.
std::string resolve_workers(Loading& loading, const LoadOptions& options) {
  if (!options.world_size) {
    const BatchConfig& b = loading.config().batch;
    const std::int64_t data = loading.config().parallelism.data_parallel_size;
    const std::int64_t product = b.micro_batch_size * b.gradient_accumulation_steps;
    loading.data_workers =
        data > 0 ? data
        : product > 0 && b.train_batch_size % product == 0 && b.train_batch_size > 0
            ? b.train_batch_size / product
            : 1;
    return data > 0 ? fmt::format("parallelism.data_parallel_size = {}", data) : "";
  }
  const std::int64_t group = group_size(loading);
  loading.data_workers = *options.world_size / group;
  return group == 1 ? ""
                    : fmt::format("{} workers form {} group{} of {} ({})", *options.world_size,
                                  loading.data_workers, loading.data_workers == 1 ? "" : "s", group,
                                  group_factors(loading));
}

/// The batch size at which to show a problem with `key`: the one on the command line, because the
/// user has just typed it; otherwise `key` or, if that is not given, the micro-batch.
std::string batch_size_to_blame(const Loading& loading, const char* key) {
  for (const char* size :
       {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"})
    if (is_typed(loading, size)) return size;
  return loading.given(key) ? key : "train_micro_batch_size_per_gpu";
}

/// "auto" follows from the other batch sizes or, if it does not, is HF's default.
void resolve_auto_batch(Loading& loading) {
  BatchConfig& b = loading.config().batch;
  const auto is_auto = [&](const char* path) { return loading.derive.contains(path); };
  const bool micro = is_auto("train_micro_batch_size_per_gpu") &&
                     (b.train_batch_size == 0 || b.gradient_accumulation_steps == 0);
  const bool total = is_auto("train_batch_size") && b.micro_batch_size == 0;
  if (micro || total) {
    b.micro_batch_size = kHfMicroBatch;
    loading.set_origin("train_micro_batch_size_per_gpu", OriginKind::kAuto,
                       "\"auto\": the default of HF's Trainer");
  }
}

/// A resumed run keeps its batch on any number of workers, unless the config sets one. If the
/// micro-batch is not given, it is the largest that divides the batch, up to the Trainer's.
void keep_resumed_batch(Loading& loading, std::int64_t resumed_batch_size) {
  BatchConfig& b = loading.config().batch;
  if (b.train_batch_size > 0 || loading.refused("train_batch_size")) return;
  b.train_batch_size = resumed_batch_size;
  loading.set_origin("train_batch_size", OriginKind::kDerived, "the run that is resumed");
  if (b.micro_batch_size > 0) return;
  const std::int64_t share = resumed_batch_size / loading.data_workers /
                             std::max<std::int64_t>(1, b.gradient_accumulation_steps);
  std::int64_t micro = b.gradient_accumulation_steps > 0 ? share : std::min(kHfMicroBatch, share);
  while (micro > 1 && share % micro != 0) --micro;
  b.micro_batch_size = micro;
}

/// A pipeline with few micro-batches idles most of the time, which is easily overlooked if only
/// train_batch_size is given.
void advise_micro_batches(Loading& loading) {
  constexpr std::int64_t kEnough = 4;  // micro-batches for each stage: then they idle about 20 %
  const Config& config = loading.config();
  const BatchConfig& b = config.batch;
  const std::int64_t stages = config.parallelism.pipeline_parallel_size;
  const std::int64_t samples = b.micro_batch_size * b.gradient_accumulation_steps;
  if (stages == 1 || b.gradient_accumulation_steps >= stages || b.micro_batch_size < 2) return;
  std::int64_t micro = std::max<std::int64_t>(1, samples / (kEnough * stages));
  while (samples % micro != 0) --micro;
  loading.problem_at(
      Severity::kNotice, "parallelism.pipeline_parallel_size",
      fmt::format(
          "a pipeline of {} stages has only {} micro-batch{} a step, so its stages wait for "
          "each other most of the time",
          stages, b.gradient_accumulation_steps, b.gradient_accumulation_steps == 1 ? "" : "es"),
      fmt::format("train_micro_batch_size_per_gpu = {} gives {} micro-batches", micro,
                  samples / micro));
}

}  // namespace

void resolve_batch(Loading& loading, const LoadOptions& options) {
  const bool is_elastic = loading.config().elasticity.enabled;
  if (!options.resumed_batch_size && !is_elastic) resolve_auto_batch(loading);
  BatchConfig& b = loading.config().batch;
  const BatchConfig asked = b;
  if (options.splits_model && !check_layout(loading, options)) return;
  const std::string derivation = resolve_workers(loading, options);
  if (is_elastic)
    return resolve_elasticity(loading, options.world_size.has_value(), group_size(loading));
  if (options.resumed_batch_size) {
    keep_resumed_batch(loading, *options.resumed_batch_size);
    resolve_auto_batch(loading);
  }
  if (b.train_batch_size == 0 && b.micro_batch_size == 0) {
    if (loading.refused("train_batch_size") || loading.refused("train_micro_batch_size_per_gpu"))
      return;
    loading.problem(Severity::kMissing, {},
                    "the batch size is missing: neither train_batch_size nor "
                    "train_micro_batch_size_per_gpu is given",
                    "for example \"train_micro_batch_size_per_gpu\": 4");
    return;
  }
  try {
    const bool knows_workers =
        options.world_size || loading.config().parallelism.data_parallel_size > 0;
    const auto problem = check_batch(b, loading.data_workers, derivation, knows_workers);
    b = complete_batch(b, loading.data_workers);
    if (problem)
      loading.problem_at(Severity::kError, batch_size_to_blame(loading, problem->key),
                         problem->message, problem->hint);
  } catch (const Error& e) {
    loading.problem_at(Severity::kError, "train_micro_batch_size_per_gpu", e.message());
  }
  const auto derived = [&](const char* path, std::int64_t before) {
    if (before == 0 && !loading.has_origin(path))
      loading.set_origin(path, OriginKind::kDerived, "the other batch sizes");
  };
  derived("train_batch_size", asked.train_batch_size);
  derived("train_micro_batch_size_per_gpu", asked.micro_batch_size);
  derived("gradient_accumulation_steps", asked.gradient_accumulation_steps);
  if (options.world_size && options.splits_model) advise_micro_batches(loading);
}

void set_epoch_samples(Config& config, std::int64_t epoch_samples) {
  TrainingConfig& training = config.training;
  if (training.num_epochs == 0) return;
  const double samples = training.num_epochs * static_cast<double>(epoch_samples);
  const auto batch = static_cast<double>(config.batch.train_batch_size);
  training.train_iters = std::max<std::int64_t>(1, std::llround(std::floor(samples / batch)));
  training.num_epochs = 0;
  const bool decays =
      config.scheduler.type == "WarmupDecayLR" || config.scheduler.type == "WarmupCosineLR";
  if (decays)
    config.scheduler.numbers.try_emplace("total_num_steps",
                                         static_cast<double>(training.train_iters));
}

void resolve(Loading& loading, const LoadOptions& options) {
  resolve_seq_length(loading);
  resolve_batch(loading, options);
  resolve_length(loading);
  resolve_keep_best(loading);
  fill_params(loading, "optimizer.params", loading.config().optimizer.type);
  resolve_scheduler(loading);
}

}  // namespace hgt
