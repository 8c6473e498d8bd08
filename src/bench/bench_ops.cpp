#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/trace.h"
#include "hgtrain/bench/bench.h"
#include "hgtrain/comm/connect.h"
#include "hgtrain/config/config.h"
#include "hgtrain/report/profile.h"
#include "hgtrain/train/machine_rates.h"

#include "about.h"
#include "queue_clock.h"
#include "spread.h"
#include "synthetic_run.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kRateBudgetMs = 300;

Json op_json(const OpCall& call, const std::vector<double>& all_ms, std::int64_t steps,
             const Ceilings& ceilings) {
  const Spread ms = spread_of(all_ms);
  const Speed speed = speed_of(call.work, ms.median, ceilings);
  const double calls = static_cast<double>(all_ms.size()) / static_cast<double>(steps);
  Json out{{"op", call.op},
           {"calls_per_step", calls},
           {"ms", to_json(ms)},
           {"ms_per_step", ms.median * calls}};
  if (speed.rate > 0) {
    const char* const what = speed.multiplies ? "flops" : "bytes";
    out[what] = speed.multiplies ? call.work.flops : call.work.bytes;
    out[fmt::format("{}_per_sec", what)] = speed.rate;
    out["of_ceiling"] = speed.of_ceiling;
  }
  return out;
}

/// Its memory is free again before a model takes it.
Ceilings measured_ceilings(const Config& config) {
  ComputeStream device(config.hardware.device == "cuda", static_cast<int>(config.hardware.threads));
  return {measure_matrix_rate(device.get(), config.precision.compute_dtype(), kRateBudgetMs),
          measure_copy_rate(device.get())};
}

}  // namespace

Json bench_ops(const Config& job, std::int64_t steps) {
  name_thread("training");
  Config config = job;
  config.hardware.cuda_graphs = false;  // an op in a graph cannot be timed alone
  const Ceilings ceilings = measured_ceilings(config);
  const std::unique_ptr<Communicator> comm = make_self_communicator();
  SyntheticRun run(config, *comm);
  for (int i = 0; i < kWarmUpSteps; ++i) run.step();
  forget_spans();
  record_spans(Recording::kAll);
  std::optional<QueueClock> clock;
  if (!run.stream().device().is_cpu()) clock.emplace(run.stream().queue());
  std::vector<double> step_ms;
  for (std::int64_t i = 0; i < steps; ++i) {
    step_ms.push_back(run.step());
    if (clock) clock->resolve_durations();
  }
  record_spans(Recording::kOff);

  // Calls of one op with the same amount of work are repeats of each other.
  std::map<std::tuple<std::string, double, double>, std::vector<double>> repeats;
  for (const OpCall& call : op_calls(recorded_spans()))
    repeats[{call.op, call.work.flops, call.work.bytes}].push_back(call.ms);
  Json ops = Json::array();
  for (const auto& [key, ms] : repeats) {
    const auto& [op, flops, bytes] = key;
    ops.push_back(op_json({op, 0, {flops, bytes}}, ms, steps, ceilings));
  }
  std::sort(ops.begin(), ops.end(), [](const Json& a, const Json& b) {
    return a["ms_per_step"].get<double>() > b["ms_per_step"].get<double>();
  });
  double all_ms = 0;
  for (const Json& op : ops) all_ms += op["ms_per_step"].get<double>();
  for (Json& op : ops) op["share"] = op["ms_per_step"].get<double>() / all_ms;
  Json out = about("ops", config, run.stream(), run.attention());
  out["steps"] = steps;
  out["step_ms"] = to_json(spread_of(step_ms));  // by kernels, and waits for their times
  out["ops_ms"] = all_ms;
  out["matrix_flops_per_sec"] = ceilings.flops_per_sec;
  out["copy_bytes_per_sec"] = ceilings.bytes_per_sec;
  out["ops"] = ops;
  return out;
}

}  // namespace hgt
