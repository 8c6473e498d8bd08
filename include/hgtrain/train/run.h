#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hgtrain/comm/groups.h"
#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/train/trainer.h"
#include "hgtrain/wire/control.h"

namespace hgt {

struct Config;

struct RunOptions {
  std::string run_dir;
  /// None, auto (the newest checkpoint; a fresh start if there is none), or a folder.
  std::string resume = "none";
  std::int64_t record_steps = 0;  ///< steps after the warm-up whose spans go to the run folder
  int num_hosts = 1, host = 0;    ///< whose data are compared
  bool is_first_of_host = true;
  bool is_restart = false;  ///< of a job that had begun to train
  /// As long as the hosts' data are not known to be the same, the checkpoints of these steps are
  /// kept, like the one from which the run starts.
  std::vector<std::int64_t> needed_steps = {};
};

struct RunOutcome {
  bool stopped_early = false;  ///< on request, with a checkpoint
  std::string reason;          ///< a sentence
};

class Run;

/// One rank's training run: steps, evaluations, checkpoints, metrics. Every rank of the job makes
/// one, with a resolved config (hardware.threads is this worker's). The device is that of `queue`,
/// or the CPU if `queue` is null.
class TrainingRun {
 public:
  /// All references and pointers outlive the run, also those in `groups`, which are those of the
  /// config's layout. `savers` has the same world and tensor groups, for
  /// saves in the background; it may be null if there are none or one rank.
  TrainingRun(const Config& config, const RunOptions& options, const Groups& groups,
              ControlChannel& channel, Requests& requests, const CudaQueue* queue = nullptr,
              const Groups* savers = nullptr);
  /// Freeing GPU memory waits for the queued work, which may wait for peers that wait for this
  /// rank: report an error that train() threw before the run is destroyed.
  ~TrainingRun();

  /// Trains to the end; all ranks call it together, once. They write checkpoints into the run
  /// folder together; rank 0 writes the metrics there and sends "started", "metrics", "checkpoint"
  /// and "notice" up the channel. Every rank writes the samples it took to its log. On return the
  /// last step is saved. If a checkpoint cannot be written, a notice says so and training
  /// continues; if it is the last one, Error(kData) is thrown. Every exception is an Error. If a
  /// device fails because communication with a peer broke, the error is the communicator's.
  RunOutcome train();

 private:
  std::unique_ptr<Run> run_;
};

}  // namespace hgt
