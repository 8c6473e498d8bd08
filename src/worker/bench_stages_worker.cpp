#include <vector>

#include <nlohmann/json.hpp>

#include "hgtrain/bench/bench.h"
#include "hgtrain/config/load.h"

#include "commands.h"
#include "ranks.h"

namespace hgt {
namespace {

void measure(ControlChannel& channel, const BenchStagesRequest& request) {
  std::vector<Config> configs;
  for (const auto& config : nlohmann::ordered_json::parse(request.configs))
    configs.push_back(config_from_resolved(config));
  const auto [comm, backend_name] =
      connect_ranks(channel, configs.front(), read_environment(), nullptr);
  nlohmann::ordered_json result = bench_stages(configs, request.steps, *comm);
  result["backend"] = backend_name;
  if (comm->rank() == 0)
    channel.send("result", {{"text", request.json ? result.dump(2) + "\n" : bench_text(result)}});
}

}  // namespace

int bench_stages_worker(const BenchStagesRequest& request) {
  return run_rank([&](ControlChannel& channel) { measure(channel, request); });
}

}  // namespace hgt
