#include "eval_worker.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <nlohmann/json.hpp>

#include "hgtrain/base/exception.h"
#include "hgtrain/config/load.h"
#include "hgtrain/train/evaluate.h"
#include "hgtrain/wire/messages.h"

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
  std::atomic<bool> failed = false;  // then it ends by itself, with its own status
  const auto leave = [&] {
    if (!failed) std::_Exit(static_cast<int>(ErrorKind::kPeer));
  };
  const auto channel = ControlChannel::open({
      .stop = [] { std::_Exit(kExitStoppedEarly); },
      .checkpoint = [] {},
      .abort = [&](const std::string&) { leave(); },
      .lost = [&] { leave(); },
  });
  try {
    if (args.size() != 3)
      throw Error(ErrorKind::kConfig, "hgtrain-worker eval lacks a word", "use hgtrain eval");
    evaluate(*channel, args);
    return 0;
  } catch (const std::exception& e) {
    const Error error = error_from(e);
    std::fputs(error.render("hgtrain-worker").c_str(), stderr);
    failed = true;
    channel->send("failed", failed_body(error));
    channel->flush();
    return error.exit_code();
  }
}

}  // namespace hgt
