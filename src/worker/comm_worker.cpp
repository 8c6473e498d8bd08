#include "comm_worker.h"

#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/bench/bench.h"

#include "ranks.h"

namespace hgt {
namespace {

void measure(ControlChannel& channel, const std::vector<std::string>& args) {
  const Environment environment = read_environment();
  Config config;
  config.hardware.device = args[6] == "cpu" ? "cpu" : "cuda";
  config.hardware.oversubscribe = args[6] == "shared";
  config.hardware.cudnn = false;
  config.distributed.backend = args[0];
  const std::unique_ptr<CudaQueue> queue = open_device(config, environment);
  const auto [comm, backend_name] = connect_ranks(channel, config, environment, queue.get());

  nlohmann::ordered_json result = bench_comm(
      *comm, {args[1], std::stoll(args[2]), std::stoll(args[3]), std::stoll(args[4])}, queue.get());
  result["backend"] = backend_name;
  if (comm->rank() == 0)
    channel.send("result",
                 {{"text", args[5] == "json" ? result.dump(2) + "\n" : bench_text(result)}});
  for (const auto& size : result["sizes"])
    if (size["wrong"] != 0)
      throw Error(ErrorKind::kInternal,
                  fmt::format("{} elements of {} bytes came out wrong",
                              size["wrong"].get<std::int64_t>(), size["bytes"].get<std::int64_t>()),
                  "the machine's memory or network may be damaged: report it, with the table");
}

}  // namespace

int comm_worker(const std::vector<std::string>& args) {
  return run_rank([&](ControlChannel& channel) {
    if (args.size() != 7)
      throw Error(ErrorKind::kConfig, "hgtrain-worker bench_comm lacks a word",
                  "use hgtrain bench comm");
    measure(channel, args);
  });
}

}  // namespace hgt
