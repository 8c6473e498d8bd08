#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/json.h"
#include "hgtrain/bench/bench.h"
#include "hgtrain/comm/connect.h"
#include "hgtrain/config/load.h"
#include "hgtrain/parallel/rank_plan.h"

#include "commands.h"
#include "ranks.h"

namespace hgt {
namespace {

void measure(ControlChannel& channel, const BenchLayoutsRequest& request) {
  std::vector<Config> configs;
  for (const auto& config : parse_json<nlohmann::ordered_json>(request.configs))
    configs.push_back(config_from_resolved(config));
  const Environment environment = read_environment();
  const auto [comm, backend_name] = connect_ranks(channel, configs.front(), environment, nullptr);
  std::vector<std::unique_ptr<ConnectedGroups>> layouts;
  const std::unique_ptr<Communicator> alone = make_self_communicator();
  const auto connect = [&](const Config& config) -> Groups {
    if (layout_of(config).world_size() == 1) return *alone;
    const std::string name = fmt::format("layout {}", layouts.size());
    layouts.push_back(connect_groups(channel, config, environment, nullptr, *comm, nullptr, name));
    return layouts.back()->get();
  };
  nlohmann::ordered_json result = bench_layouts(configs, request.steps, *comm, connect);
  if (comm->rank() > 0) return;
  result["backend"] = backend_name;
  channel.send("result", {{"text", request.json ? result.dump(2) + "\n" : bench_text(result)}});
}

}  // namespace

int bench_layouts_worker(const BenchLayoutsRequest& request) {
  return run_rank([&](ControlChannel& channel) { measure(channel, request); });
}

}  // namespace hgt
