#include "train_worker.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/exception.h"
#include "hgtrain/base/host.h"
#include "hgtrain/config/load.h"
#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/report/human.h"
#include "hgtrain/train/run.h"
#include "hgtrain/wire/messages.h"

#include "environment.h"
#include "ranks.h"
#include "stop_signals.h"

namespace hgt {
namespace {

/// The communicator of the job, once there is one; what the control channel aborts.
class Group {
 public:
  /// The group owns the queue, if there is one, from now on.
  Communicator& connect(ControlChannel& channel, const Config& config,
                        const Environment& environment, std::unique_ptr<CudaQueue> queue) {
    queue_ = std::move(queue);
    auto [communicator, backend_name] =
        connect_ranks(channel, config, environment, queue_.get(), &aborted_);
    if (!backend_name.empty()) fmt::print(stderr, "communication backend: {}\n", backend_name);
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
  std::atomic<bool> aborted_ = false;
  std::unique_ptr<CudaQueue> queue_;  ///< outlives the communicator
  std::unique_ptr<Communicator> communicator_;
};

/// The first line of a rank's log.
void log_header(const Environment& environment, const Config& config) {
  fmt::print(stderr, "rank {} of {} on {}, pid {}, {}{}, {}{}, hgtrain {}\n", environment.rank,
             environment.world_size, host_name(), ::getpid(), config.hardware.device,
             config.hardware.device == "cuda" && config.hardware.cuda_graphs ? " by graphs" : "",
             human_plural(config.hardware.threads, "thread"),
             config.training.deterministic ? ", deterministic" : "", HGT_VERSION);
}

int train(ControlChannel& channel, Group& group, const std::string& config_path,
          const RunOptions& options, Requests& requests,
          const std::function<void(const Error&)>& failed) {
  const Environment environment = read_environment();
  const Config config = load_resolved_config(config_path);
  log_header(environment, config);
  channel.progress().phase = "connecting";
  std::unique_ptr<CudaQueue> queue = open_device(config, environment);
  const CudaQueue* const compute = queue.get();
  Communicator& comm = group.connect(channel, config, environment, std::move(queue));
  const RunOutcome outcome =
      run_training(config, options, comm, channel, requests, compute, failed);
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

int train_worker(const std::string& config, const RunOptions& options) {
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
  const auto fail = [&](const Error& error) {
    if (status != 0) return;  // it was reported when it was thrown
    status = report(*channel, error);
    group.abort();
  };
  try {
    status = train(*channel, group, config, options, requests, fail);
  } catch (const std::exception& e) {
    fail(error_from(e));
  }
  group.leave();
  return status;
}

}  // namespace hgt
