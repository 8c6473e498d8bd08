#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "hgtrain/base/error.h"
#include "hgtrain/comm/communicator.h"
#include "hgtrain/config/config.h"
#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/train/trainer.h"
#include "hgtrain/wire/control.h"

namespace hgt {

struct RunOptions {
  std::string run_dir;
  std::string resume =
      "none";  ///< none, auto (the newest checkpoint; fresh where there is none), or a folder
  std::int64_t record_steps = 0;  ///< so many, once warm, leave their spans in the run folder
};

struct RunOutcome {
  bool stopped_early = false;  ///< on request, with a checkpoint
  std::string reason;          ///< a sentence
};

/// Trains to the end: steps, evaluations, checkpoints, metrics; every rank of `comm` calls it, with
/// a resolved config (hardware.threads is this worker's). The device is that of `queue`, or the CPU
/// where there is none.
///
/// Rank 0 writes metrics and checkpoints into the run folder and sends "started", "metrics",
/// "checkpoint" and "notice" up the channel. Every rank writes the samples it took to its log
/// (stderr). On return the last step is saved. A checkpoint that could not be written is a notice,
/// and training goes on, unless it is the last: then Error(kData).
///
/// What it throws `failed` hears before anything of the run is given back: giving back memory of a
/// GPU waits for what it was given to do, and that may wait for peers who wait for us. Where a
/// device fails because communication with a peer ended under way, the error is the communicator's.
RunOutcome run_training(const Config& config, const RunOptions& options, Communicator& comm,
                        ControlChannel& channel, Requests& requests,
                        const CudaQueue* queue = nullptr,
                        const std::function<void(const Error&)>& failed = {});

}  // namespace hgt
