#include "eval_worker.h"

#include <memory>

#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/config/load.h"
#include "hgtrain/train/evaluate.h"

#include "ranks.h"

namespace hgt {
namespace {

void evaluate(ControlChannel& channel, const std::vector<std::string>& args) {
  const Environment environment = read_environment();
  const Config config = config_from_resolved(nlohmann::ordered_json::parse(args[2]));
  channel.progress().phase = "connecting";
  const std::unique_ptr<CudaQueue> queue = open_device(config, environment);
  const auto [comm, over] = connect_ranks(channel, config, environment, queue.get());
  const double loss =
      evaluate_model(config, args[0], std::stoll(args[1]), *comm, channel.progress(), queue.get());
  if (comm->rank() == 0) channel.send("result", {{"loss", loss}});
  channel.progress().phase = "leaving";
}

}  // namespace

int eval_worker(const std::vector<std::string>& args) {
  return run_rank([&](ControlChannel& channel) {
    if (args.size() != 3)
      throw Error(ErrorKind::kConfig, "hgtrain-worker eval lacks a word", "use hgtrain eval");
    evaluate(channel, args);
  });
}

}  // namespace hgt
