#include "train_worker.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <mutex>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/host.h"
#include "hgtrain/comm/connect.h"
#include "hgtrain/config/load.h"
#include "hgtrain/report/human.h"
#include "hgtrain/train/run.h"
#include "hgtrain/wire/messages.h"

#include "environment.h"
#include "stop_signals.h"

namespace hgt {
namespace {

std::unique_ptr<Communicator> connect_ranks(ControlChannel& channel,
                                            const DistributedConfig& config,
                                            const Environment& environment) {
  if (environment.world_size == 1) return make_self_communicator();
  const GroupOptions group{.rank = environment.rank,
                           .size = environment.world_size,
                           .timeout = std::chrono::milliseconds(config.timeout_ms())};
  if (config.backend == "auto")
    if (auto shared = connect_shared_memory(channel, group)) {
      fmt::print(stderr, "sums over shared memory\n");
      return shared;
    }
  fmt::print(stderr, "sums over Gloo\n");
  return connect_gloo(channel, group, environment.master_host);
}

/// The communicator of the job, once there is one; what the control channel aborts.
class Group {
 public:
  Communicator& connect(ControlChannel& channel, const Config& config,
                        const Environment& environment) {
    auto communicator = connect_ranks(channel, config.distributed, environment);
    const std::lock_guard lock(mutex_);
    communicator_ = std::move(communicator);
    if (aborted_) communicator_->abort();
    return *communicator_;
  }
  /// Waits for the peers unless aborted; the channel must still be there.
  void leave() {
    const std::lock_guard lock(mutex_);
    communicator_.reset();
  }
  void abort() {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    if (communicator_) communicator_->abort();
  }

 private:
  std::mutex mutex_;
  bool aborted_ = false;
  std::unique_ptr<Communicator> communicator_;
};

/// The first line of a rank's log.
void log_header(const Environment& environment, const Config& config) {
  fmt::print(stderr, "rank {} of {} on {}, pid {}, {}, {}{}, hgtrain {}\n", environment.rank,
             environment.world_size, host_name(), ::getpid(), config.hardware.device,
             human_plural(config.hardware.threads, "thread"),
             config.training.deterministic ? ", deterministic" : "", HGT_VERSION);
}

int train(ControlChannel& channel, Group& group, const RunOptions& options, Requests& requests) {
  const Environment environment = read_environment();
  const Config config = load_resolved_config(options.run_dir + "/config.json");
  log_header(environment, config);
  channel.progress().phase = "connecting";
  Communicator& comm = group.connect(channel, config, environment);
  const RunOutcome outcome = run_training(config, options, comm, channel, requests);
  if (comm.rank() == 0)
    channel.send("done", {{"reason", outcome.reason}, {"stopped_early", outcome.stopped_early}});
  channel.progress().phase = "leaving";
  return outcome.stopped_early ? kExitStoppedEarly : 0;
}

/// The launcher hears why before any peer sees this rank's connections go.
int report(ControlChannel& channel, const Error& error) {
  std::fputs(error.render("hgtrain-worker").c_str(), stderr);
  channel.send("failed", failed_body(error));
  channel.flush();
  return error.exit_code();
}

}  // namespace

int train_worker(const RunOptions& options) {
  Requests requests;
  const StopSignals signals(requests.stop);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of the write
  Group group;
  const auto channel = ControlChannel::open({
      .stop = [&] { requests.stop = true; },
      .checkpoint = [&] { requests.checkpoint = true; },
      .abort = [&](const std::string&) { group.abort(); },
      .lost = [&] { group.abort(); },
  });
  int status = 0;
  try {
    status = train(*channel, group, options, requests);
  } catch (const Error& e) {
    status = report(*channel, e);
    group.abort();
  } catch (const std::exception& e) {
    status = report(*channel, Error(ErrorKind::kInternal, e.what()));
    group.abort();
  }
  group.leave();
  return status;
}

}  // namespace hgt
