#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/exception.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/log.h"
#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/parallel/rank_plan.h"
#include "hgtrain/report/human.h"
#include "hgtrain/train/memory_fit.h"
#include "hgtrain/train/run.h"
#include "hgtrain/train/warm_up.h"
#include "hgtrain/wire/messages.h"
#include "hgtrain/wire/phases.h"

#include "commands.h"
#include "environment.h"
#include "job_files.h"
#include "ranks.h"
#include "stop_signals.h"

namespace hgt {
namespace {

/// The communicators of the job, once they exist, which the control channel aborts.
class JobCommunicators {
 public:
  /// Takes the queue, if there is one.
  const Groups& connect(ControlChannel& channel, const Config& config,
                        const Environment& environment, std::unique_ptr<CudaQueue> queue,
                        const OwnerFiles::Folders& folders) {
    queue_ = std::move(queue);
    if (queue_) nccl_log_.emplace();
    auto [communicator, backend_name] =
        connect_ranks(channel, config, environment, queue_.get(), &aborted_);
    if (!backend_name.empty()) log_info("communication backend: {}", backend_name);
    auto groups =
        connect_groups(channel, config, environment, queue_.get(), *communicator, &aborted_);
    SaveGroup savers = connect_save_group(channel, config, environment, &aborted_);
    auto files = connect_files(channel, config, environment, *communicator, folders, &aborted_);
    if (nccl_log_) report_transports(channel, environment, *nccl_log_);
    const std::lock_guard lock(mutex_);
    savers_ = std::move(savers);
    files_ = std::move(files);
    communicator_ = std::move(communicator);
    groups_ = std::move(groups);
    if (aborted_) abort_all();
    return groups_->get();
  }
  /// Null if there are no saves in the background, or only one rank.
  const Groups* savers() const { return savers_.groups ? &*savers_.groups : nullptr; }
  /// Waits for the peers unless aborted; the channel must still be there.
  void leave() {
    const std::lock_guard lock(mutex_);
    savers_.tensor.reset();
    savers_.communicator.reset();
    groups_.reset();
    communicator_.reset();
    files_.reset();
  }
  /// A save under way may still be finished: it ends if a peer is lost.
  void abort() {
    aborted_ = true;  // before the lock, which leave() holds while it waits for the peers
    const std::lock_guard lock(mutex_);
    abort_all();
  }
  void abort_saves() {
    const std::lock_guard lock(mutex_);
    savers_.abort();
    if (files_) files_->abort();
  }

 private:
  void abort_all() {
    if (communicator_) communicator_->abort();
    if (groups_) groups_->abort();
  }

  std::mutex mutex_;
  std::atomic<bool> aborted_ = false;
  std::optional<NcclLog> nccl_log_;   ///< on a GPU
  std::unique_ptr<CudaQueue> queue_;  ///< outlives the communicators
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<ConnectedGroups> groups_;
  SaveGroup savers_;
  std::unique_ptr<OwnerFiles> files_;
};

/// The first lines of a rank's log.
void log_header(const Environment& environment, const Config& config) {
  log_info("rank {} of {} on {}, pid {}, {}{}, {}{}, hgtrain {}", environment.rank,
           environment.world_size, host_name(), ::getpid(), config.hardware.device,
           config.hardware.device == "cuda" && config.hardware.cuda_graphs ? " by graphs" : "",
           human_plural(config.hardware.threads, "thread"),
           config.training.deterministic ? ", deterministic" : "", HGT_VERSION);
  const Layout layout = layout_of(config);
  const Coordinates at = layout.coordinates_of(environment.rank);
  log_info(
      "data rank {} of {}, context rank {} of {}, tensor rank {} of {}, pipeline stage {} of {}, "
      "ZeRO stage {}",
      at.data, layout.data_size, at.context, layout.context_size, at.tensor, layout.tensor_size,
      at.pipeline, layout.pipeline_size, config.zero.stage);
}

/// Reports the error to the launcher before this rank's connections close, so that no peer's
/// failure comes first.
int report(ControlChannel& channel, const Error& error) {
  log_error("{}", error.text());
  channel.send("failed", failed_body(error));
  channel.flush();
  return error.exit_code();
}

/// One rank of a training job.
class TrainWorker {
 public:
  TrainWorker()
      : signals_(requests_.stop),
        channel_(ControlChannel::open({
            .stop = [this] { requests_.stop = true; },
            .checkpoint = [this] { requests_.checkpoint = true; },
            .abort = [this](const std::string&) { communicators_.abort(); },
            .lost =
                [this] {
                  communicators_.abort();
                  communicators_.abort_saves();
                },
            .show_stacks = show_stacks,
        })) {}

  int run(const TrainRequest& request) {
    int status = 0;
    try {
      status = train(request);
    } catch (const std::exception& e) {
      status = report(*channel_, error_from(e));
      communicators_.abort();
    }
    run_.reset();  // a save under way is finished
    if (status != 0 && status != kExitStoppedEarly) communicators_.abort_saves();
    communicators_.leave();
    return status;
  }

 private:
  int train(const TrainRequest& request) {
    const Environment environment = read_environment();
    log_.emplace(fmt::format("rank {}", environment.rank),
                 log_level_from_environment(LogLevel::kInfo), /*asynchronous=*/true);
    config_ = config_of_job(*channel_, environment, request.config);
    log_header(environment, config_);
    log_debug("config {}, resume {}", request.config, request.resume);
    require_same_tokenizer(*channel_, environment, config_.tokenizer.path);
    std::unique_ptr<CudaQueue> queue = open_device(config_, environment);
    const CudaQueue* const compute = queue.get();
    if (compute) plan_device(config_, environment, *channel_, *compute);
    if (compute) require_memory(config_, *compute);
    if (compute && environment.world_size > 1) {
      channel_->progress().phase = "choosing how to compute products";
      log_info("{}",
               warm_up(config_, environment.rank, environment.world_size, *channel_, *compute));
    }
    channel_->progress().phase = kConnectingPhase;
    const Groups& groups = communicators_.connect(*channel_, config_, environment, std::move(queue),
                                                  folders_of_job(request, config_, environment));
    const RunOptions options{.run_dir = request.run_dir,
                             .resume = request.resume,
                             .record_steps = request.record_steps,
                             .num_hosts = environment.num_hosts,
                             .host = environment.host,
                             .is_first_of_host = environment.local_rank == 0,
                             .is_restart = environment.restarts > 0,
                             .needed_steps = environment.needed_steps};
    run_.emplace(config_, options, groups, *channel_, requests_, compute, communicators_.savers());
    const RunOutcome outcome = run_->train();
    if (environment.rank == 0)
      channel_->send("done",
                     {{"reason", outcome.reason}, {"stopped_early", outcome.stopped_early}});
    channel_->progress().phase = "leaving";
    return outcome.stopped_early ? kExitStoppedEarly : 0;
  }

  Requests requests_;
  const StopSignals signals_;
  std::optional<LogSession> log_;  ///< its thread comes after the signals
  JobCommunicators communicators_;
  const std::unique_ptr<ControlChannel> channel_;
  Config config_;
  std::optional<TrainingRun> run_;  ///< is destroyed after its error was reported
};

}  // namespace

int train_worker(const TrainRequest& request) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of the write
  return TrainWorker().run(request);
}

}  // namespace hgt
