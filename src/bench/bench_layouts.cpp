#include <algorithm>
#include <ctime>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hgtrain/arch/memory.h"
#include "hgtrain/bench/bench.h"
#include "hgtrain/comm/connect.h"
#include "hgtrain/comm/together.h"
#include "hgtrain/config/config.h"
#include "hgtrain/parallel/rank_plan.h"
#include "hgtrain/train/process_memory.h"

#include "about.h"
#include "spread.h"
#include "synthetic_run.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kStepsOfTurn = 3;

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

std::vector<double> of_ranks(double mine, Communicator& comm) {
  return values_of_ranks(comm, {&mine, 1});
}

/// The CPU time of all threads of this process, to which other load on the machine adds little.
double cpu_ms() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

/// "pp2 zero1", "one".
std::string text_of(const Layout& layout, const Config& config) {
  std::vector<std::string> parts;
  const auto add = [&](const char* axis, int size) {
    if (size > 1) parts.push_back(fmt::format("{}{}", axis, size));
  };
  add("pp", layout.pipeline_size);
  if (layout.pipeline_size > 1 && config.parallelism.pipeline_schedule != "1f1b")
    parts.push_back(config.parallelism.pipeline_schedule);
  add("vpp", layout.virtual_stages);
  add("cp", layout.context_size);
  add("tp", layout.tensor_size);
  if (config.parallelism.sequence_parallel && layout.tensor_size > 1) parts.push_back("sp");
  add("dp", layout.data_size);
  if (config.zero.stage > 0) parts.push_back(fmt::format("zero{}", config.zero.stage));
  return parts.empty() ? "one" : fmt::format("{}", fmt::join(parts, " "));
}

/// A config's run, and what was measured of it; nothing on a rank that is no worker of it.
class Contestant {
 public:
  Contestant(const Config& config, Communicator& comm, const ConnectLayout& connect)
      : config_(config), layout_(layout_of(config)), comm_(comm) {
    if (comm.rank() >= layout_.world_size()) return;
    const Groups groups = connect(config);
    return_freed_memory();
    const std::int64_t before = process_memory().bytes;
    run_ = std::make_unique<SyntheticRun>(config, groups);
    for (int i = 0; i < kWarmUpSteps; ++i) run_->step();
    return_freed_memory();
    bytes_ = process_memory().bytes - before;
  }

  const SyntheticRun& run() const { return *run_; }

  /// The first step is not timed: it fills the caches. Each timed one begins while the collectives
  /// of the step before are on their way, and leaves its own to the next, as in training.
  void take_turn(std::int64_t steps) {
    comm_.barrier();
    if (!run_) return;
    run_->step();
    const double cpu_before_ms = cpu_ms();
    double ms = 0;
    for (std::int64_t i = 0; i < steps; ++i) {
      ms += step_ms_.emplace_back(run_->step());
      waited_ms_ += run_->finished().comm_ms;
    }
    turn_ms_.push_back(ms);
    cpu_ms_.push_back((cpu_ms() - cpu_before_ms) / static_cast<double>(steps));
  }

  /// All ranks call it together.
  Json result(const Contestant& first) const {
    const int workers = layout_.world_size();
    const double cpu = run_ ? spread_of(cpu_ms_).median : 0;
    const double waits = run_ ? waited_ms_ / sum(step_ms_) : 0;
    Json out{{"layout", text_of(layout_, config_)},
             {"workers", workers},
             {"accumulation", config_.batch.gradient_accumulation_steps},
             {"cpu_ms", sum(of_ranks(cpu, comm_)) / workers},
             {"share_of_waits", sum(of_ranks(waits, comm_)) / workers},
             {"worker_bytes", std::ranges::max(of_ranks(static_cast<double>(bytes_), comm_))},
             {"planned_bytes", worker_bytes(run_ ? run_->config() : config_)}};
    if (!run_) return out;
    const Spread ms = spread_of(step_ms_);
    const auto tokens =
        static_cast<double>(config_.batch.train_batch_size * config_.training.seq_length);
    const auto rate = [&](double ms) { return tokens / ms * 1e3; };
    std::vector<double> ratios;
    for (std::size_t turn = 0; turn < std::min(turn_ms_.size(), first.turn_ms_.size()); ++turn)
      ratios.push_back(first.turn_ms_[turn] / turn_ms_[turn]);
    out["step_ms"] = to_json(ms);
    out["tokens_per_sec"] = to_json({rate(ms.median), rate(ms.p90), rate(ms.p10)});
    if (!ratios.empty()) out["of_first"] = to_json(spread_of(ratios));
    return out;
  }

 private:
  const Config config_;
  const Layout layout_;
  Communicator& comm_;
  std::unique_ptr<SyntheticRun> run_;
  std::int64_t bytes_ = 0;  ///< that the process grew by
  std::vector<double> step_ms_, turn_ms_, cpu_ms_;
  double waited_ms_ = 0;
};

/// Allocates what all runs of a process share, such as oneDNN's kernels and buffers, so that it
/// does not count as memory of the first run.
void warm_up(Config config) {
  config.parallelism = {};
  config.zero = {};
  config.model.num_hidden_layers = 1;
  config.recompute = {};
  const std::int64_t samples = config.batch.micro_batch_size;
  config.batch = {
      .train_batch_size = samples, .micro_batch_size = samples, .gradient_accumulation_steps = 1};
  const std::unique_ptr<Communicator> alone = make_self_communicator();
  SyntheticRun(config, *alone).step();
}

}  // namespace

Json bench_layouts(std::span<const Config> configs, std::int64_t steps, Communicator& comm,
                   const ConnectLayout& connect) {
  if (configs.front().hardware.device != "cuda") warm_up(configs.front());
  std::vector<Contestant> contestants;
  contestants.reserve(configs.size());
  for (const Config& config : configs) contestants.emplace_back(config, comm, connect);
  std::vector<Contestant*> order;
  for (Contestant& contestant : contestants) order.push_back(&contestant);
  for (std::int64_t left = steps; left > 0; left -= kStepsOfTurn) {
    for (Contestant* contestant : order) contestant->take_turn(std::min(left, kStepsOfTurn));
    std::ranges::reverse(order);
  }

  const Config& config = configs.front();
  Json layouts = Json::array();
  for (const Contestant& contestant : contestants)
    layouts.push_back(contestant.result(contestants.front()));
  if (comm.rank() > 0) return layouts;
  const SyntheticRun& run = contestants.front().run();
  Json out = about("train", config, run.stream(), run.attention());
  out["steps"] = steps;
  out["parameters"] = run.table().num_parameters;
  out["tokens_per_step"] = config.batch.train_batch_size * config.training.seq_length;
  out["layouts"] = std::move(layouts);
  return out;
}

}  // namespace hgt
