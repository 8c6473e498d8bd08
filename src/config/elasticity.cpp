// DeepSpeed's section `elasticity`: a batch size that suits many numbers of workers.
#include "elasticity.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sections.h"

namespace hgt {
namespace {

constexpr double kMaxWorkers = 1e6;

/// Numbers with more divisors than any smaller one.
constexpr std::int64_t kHighlyComposite[] = {
    1,      2,      4,      6,      12,     24,     36,     48,    60,    120,
    180,    240,    360,    720,    840,    1260,   1680,   2520,  5040,  7560,
    10080,  15120,  20160,  25200,  27720,  45360,  50400,  55440, 83160, 110880,
    166320, 221760, 277200, 332640, 498960, 554400, 665280, 720720};

/// Workers that are counted together: in version 0.2 those of a node.
struct Unit {
  std::int64_t gpus = 1;
  std::int64_t workers = 1;  ///< data-parallel ones
};

Unit unit_of(const ElasticityConfig& config) {
  if (config.version < 0.2) return {};
  return {config.num_gpus_per_node, config.num_gpus_per_node / config.model_parallel_size};
}

/// The least common multiple; 0 if it exceeds `max`.
std::int64_t common_multiple(const std::vector<std::int64_t>& numbers, std::int64_t max) {
  std::int64_t out = 1;
  for (const std::int64_t number : numbers) {
    if (number > max) return 0;
    out = out / std::gcd(out, number) * number;
    if (out > max) return 0;
  }
  return out;
}

/// The largest multiples, by highly composite numbers, of the micro-batches and of their common
/// multiple.
std::set<std::int64_t> candidates(const std::vector<std::int64_t>& micro_batches,
                                  std::int64_t max) {
  std::vector<std::int64_t> bases = micro_batches;
  bases.push_back(common_multiple(micro_batches, max));
  std::set<std::int64_t> out;
  for (const std::int64_t base : bases) {
    if (base == 0 || base > max) continue;
    const auto* const next =
        std::upper_bound(std::begin(kHighlyComposite), std::end(kHighlyComposite), max / base);
    out.insert(base * *(next - 1));
  }
  return out;
}

void add_divisors(std::int64_t number, std::int64_t min, std::int64_t max,
                  std::set<std::int64_t>& out) {
  for (std::int64_t i = 1; i * i <= number; ++i) {
    if (number % i != 0) continue;
    for (const std::int64_t divisor : {i, number / i})
      if (divisor >= min && divisor <= max) out.insert(divisor);
  }
}

}  // namespace

ElasticBatch elastic_batch(const ElasticityConfig& config) {
  const Unit unit = unit_of(config);
  const std::int64_t min = std::max<std::int64_t>(1, config.min_gpus / unit.gpus),
                     max = config.max_gpus / unit.gpus;
  ElasticBatch best;
  for (const std::int64_t batch :
       candidates(config.micro_batch_sizes, config.max_train_batch_size / unit.workers)) {
    std::set<std::int64_t> units;
    for (const std::int64_t micro : config.micro_batch_sizes)
      if (batch % micro == 0) add_divisors(batch / micro, min, max, units);
    const bool is_better = units.size() > best.workers.size() ||
                           (units.size() == best.workers.size() && config.prefer_larger_batch);
    if (!units.empty() && is_better) best = {batch, {units.begin(), units.end()}};
  }
  best.train_batch_size *= unit.workers;
  for (std::int64_t& workers : best.workers) workers *= unit.workers;
  return best;
}

std::int64_t elastic_micro_batch(const ElasticityConfig& config, std::int64_t train_batch_size,
                                 std::int64_t workers) {
  const bool takes_first = config.version >= 0.2 && !config.prefer_larger_batch;
  std::int64_t out = 0;
  for (const std::int64_t micro : config.micro_batch_sizes)
    if (train_batch_size / workers % micro == 0 && (out == 0 || (micro > out && !takes_first)))
      out = micro;
  return out;
}

namespace {

/// False if the section contradicts itself.
bool check_elasticity(Loading& loading, std::int64_t group) {
  const ElasticityConfig& config = loading.result.config.elasticity;
  bool is_right = true;
  const auto wrong = [&](const std::string& key, const std::string& message,
                         const std::string& hint) {
    loading.problem_at(Severity::kError, "elasticity." + key, message, hint);
    is_right = false;
  };
  for (const char* key : {"max_train_batch_size", "micro_batch_sizes"})
    if (!loading.given(std::string("elasticity.") + key))
      wrong("enabled", fmt::format("elasticity needs elasticity.{}", key),
            "give it, or set elasticity.enabled to false");
  if (config.version != 0.1 && config.version != 0.2)
    wrong("version", fmt::format("elasticity.version = {:g} is not known", config.version),
          "use 0.1 or 0.2");
  if (loading.given("elasticity.micro_batch_sizes") && config.micro_batch_sizes.empty())
    wrong("micro_batch_sizes", "elasticity.micro_batch_sizes is empty", "for example [2, 4, 6]");
  if (config.version < 0.2 && config.model_parallel_size > 1)
    wrong("model_parallel_size", "version 0.1 of elasticity has no model_parallel_size",
          "set elasticity.version to 0.2");
  else if (config.num_gpus_per_node % config.model_parallel_size != 0)
    wrong("model_parallel_size",
          fmt::format("elasticity.model_parallel_size = {} does not divide num_gpus_per_node = {}",
                      config.model_parallel_size, config.num_gpus_per_node),
          "set elasticity.num_gpus_per_node to the GPUs of each host");
  else if (config.model_parallel_size != group)
    wrong("model_parallel_size",
          fmt::format("elasticity.model_parallel_size = {}, but {} rank{} split the model",
                      config.model_parallel_size, group, group == 1 ? "" : "s"),
          fmt::format("set it to {}: tensor_parallel_size * pipeline_parallel_size * "
                      "context_parallel_size",
                      group));
  return is_right;
}

/// "1 worker", "4 or 6 workers"; "data-parallel workers" if `group` of them split the model.
std::string workers_text(const std::string& numbers, std::int64_t group) {
  return fmt::format("{} {}worker{}", numbers, group == 1 ? "" : "data-parallel ",
                     numbers == "1" ? "" : "s");
}

/// Why elasticity does not allow this number of workers.
std::string why_not_allowed(const ElasticityConfig& config, std::int64_t batch,
                            std::int64_t workers, std::int64_t group) {
  const std::string all = workers_text(fmt::to_string(workers * group), 1);
  if (workers * group < config.min_gpus)
    return fmt::format("{} would be fewer than elasticity.min_gpus = {}", all, config.min_gpus);
  if (workers * group > config.max_gpus)
    return fmt::format("{} would be more than elasticity.max_gpus = {}", all, config.max_gpus);
  return fmt::format(
      "{} cannot share the batch of {} that elasticity chooses in micro-batches of {}",
      workers_text(fmt::to_string(workers), group), batch,
      fmt::join(config.micro_batch_sizes, " or "));
}

/// "2 or 4": the numbers next to one that is not among them.
std::string neighbours(const std::vector<std::int64_t>& numbers, std::int64_t number) {
  const auto above = std::ranges::upper_bound(numbers, number);
  std::vector<std::int64_t> out;
  if (above != numbers.begin()) out.push_back(*(above - 1));
  if (above != numbers.end()) out.push_back(*above);
  return fmt::format("{}", fmt::join(out, " or "));
}

}  // namespace

void resolve_elasticity(Loading& loading, bool knows_workers, std::int64_t group) {
  if (!check_elasticity(loading, group)) return;
  const ElasticityConfig& config = loading.config().elasticity;
  const ElasticBatch batch = elastic_batch(config);
  if (batch.workers.empty())
    return loading.problem_at(
        Severity::kError, "elasticity.enabled",
        fmt::format("no batch of up to {} samples can be shared by {} to {} GPUs in micro-batches "
                    "of {}",
                    config.max_train_batch_size, config.min_gpus, config.max_gpus,
                    fmt::join(config.micro_batch_sizes, ", ")),
        config.max_train_batch_size < std::ranges::min(config.micro_batch_sizes)
            ? "raise elasticity.max_train_batch_size, or add a smaller micro-batch"
            : "raise elasticity.max_train_batch_size, or allow more numbers of GPUs");
  if (!knows_workers && loading.config().parallelism.data_parallel_size == 0)
    loading.data_workers = batch.workers.front();
  const std::int64_t workers = loading.data_workers;
  if (std::ranges::find(batch.workers, workers) == batch.workers.end())
    return loading.problem_at(Severity::kError, "elasticity.enabled",
                              why_not_allowed(config, batch.train_batch_size, workers, group),
                              "start " + workers_text(neighbours(batch.workers, workers), group));
  const std::int64_t micro = elastic_micro_batch(config, batch.train_batch_size, workers);
  BatchConfig& b = loading.config().batch;
  const auto set = [&](const std::string& path, std::int64_t& size, std::int64_t value) {
    if (size == value) return;
    if (size > 0 && !config.ignore_non_elastic_batch_info)
      loading.problem_at(Severity::kError, path,
                         fmt::format("{} = {}, but elasticity chooses {}", path, size, value),
                         "leave it out, or set elasticity.ignore_non_elastic_batch_info to true");
    size = value;
    loading.set_origin(path, OriginKind::kDerived, "elasticity");
  };
  set("train_batch_size", b.train_batch_size, batch.train_batch_size);
  set("train_micro_batch_size_per_gpu", b.micro_batch_size, micro);
  set("gradient_accumulation_steps", b.gradient_accumulation_steps,
      batch.train_batch_size / micro / workers);
}

Field elasticity_section() {
  const In in{&Config::elasticity};
  using E = ElasticityConfig;
  Field out = section(
      "elasticity", "a batch size that suits many numbers of workers, see docs/hosts.md",
      {
          used("enabled", in(&E::enabled), "choose the batch sizes by this section"),
          used("max_train_batch_size", in(&E::max_train_batch_size),
               "the largest batch; must be given if elasticity is enabled")
              .at_least(1)
              .at_most(kMaxBatch),
          used("micro_batch_sizes", in(&E::micro_batch_sizes),
               "micro-batches to choose from; must be given if elasticity is enabled")
              .at_least(1)
              .at_most(kMaxBatch),
          used("min_gpus", in(&E::min_gpus), "smallest number of workers")
              .at_least(1)
              .at_most(kMaxWorkers),
          used("max_gpus", in(&E::max_gpus), "largest number of workers")
              .at_least(1)
              .at_most(kMaxWorkers),
          used("num_gpus_per_node", in(&E::num_gpus_per_node),
               "version 0.2: workers are added and removed in groups of this size")
              .at_least(1)
              .at_most(kMaxWorkers),
          used("model_parallel_size", in(&E::model_parallel_size),
               "version 0.2: ranks that split the model")
              .at_least(1)
              .at_most(kMaxWorkers),
          ignored("min_time", Kind::kInteger, "an option of DeepSpeed's elastic agent"),
          used("version", in(&E::version), "0.1 or 0.2"),
          used("prefer_larger_batch", in(&E::prefer_larger_batch),
               "of two batches that equally many numbers of workers can share, take the larger one")
              .aka({"prefer_large_batch"}),
          used("ignore_non_elastic_batch_info", in(&E::ignore_non_elastic_batch_info),
               "batch sizes that are also given are ignored; otherwise others are an error"),
      });
  out.open = true;
  for (const int required : {1, 2}) out.fields[required].default_varies = true;
  return out;
}

}  // namespace hgt
