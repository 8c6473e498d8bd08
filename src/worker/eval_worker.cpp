#include <memory>

#include <nlohmann/json.hpp>

#include "hgtrain/base/json.h"
#include "hgtrain/config/load.h"
#include "hgtrain/train/evaluate.h"
#include "hgtrain/wire/phases.h"

#include "commands.h"
#include "ranks.h"

namespace hgt {
namespace {

void evaluate(ControlChannel& channel, const EvalRequest& request) {
  const Environment environment = read_environment();
  Config config = config_from_resolved(parse_json<nlohmann::ordered_json>(request.config));
  channel.progress().phase = kConnectingPhase;
  const std::unique_ptr<CudaQueue> queue = open_device(config, environment);
  if (queue) plan_device(config, environment, channel, *queue);
  const auto [comm, backend_name] = connect_ranks(channel, config, environment, queue.get());
  const double loss = evaluate_model(config, request.weights, request.samples, *comm,
                                     channel.progress(), queue.get());
  if (comm->rank() == 0) channel.send("result", {{"loss", loss}});
  channel.progress().phase = "leaving";
}

}  // namespace

int eval_worker(const EvalRequest& request) {
  return run_rank([&](ControlChannel& channel) { evaluate(channel, request); });
}

}  // namespace hgt
