#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/bench/bench.h"
#include "hgtrain/config/config.h"

#include "commands.h"
#include "ranks.h"

namespace hgt {
namespace {

void measure(ControlChannel& channel, const BenchCommRequest& request) {
  const Environment environment = read_environment();
  Config config;
  config.hardware.device = request.device;
  config.hardware.oversubscribe = request.oversubscribe;
  config.distributed.backend = request.backend;
  const std::unique_ptr<CudaQueue> queue = open_device(config, environment);
  const auto [comm, backend_name] = connect_ranks(channel, config, environment, queue.get());

  nlohmann::ordered_json result = bench_comm(
      *comm, {request.op, request.min_bytes, request.max_bytes, request.repeats}, queue.get());
  result["backend"] = backend_name;
  if (comm->rank() == 0)
    channel.send("result", {{"text", request.json ? result.dump(2) + "\n" : bench_text(result)}});
  for (const auto& size : result["sizes"])
    if (size["wrong"] != 0)
      throw Error(
          ErrorKind::kData,
          fmt::format("{} elements are wrong after {} of {} bytes",
                      size["wrong"].get<std::int64_t>(), request.op,
                      size["bytes"].get<std::int64_t>()),
          "run it again; if elements are wrong each time, report it with the table, because it is "
          "a bug in hgtrain; if only now and then, memory or the network is damaged");
}

}  // namespace

int bench_comm_worker(const BenchCommRequest& request) {
  return run_rank([&](ControlChannel& channel) { measure(channel, request); });
}

}  // namespace hgt
