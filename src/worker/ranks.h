#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hgtrain/comm/communicator.h"
#include "hgtrain/comm/groups.h"
#include "hgtrain/comm/nccl_log.h"
#include "hgtrain/comm/owner_files.h"
#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/machine/network.h"
#include "hgtrain/wire/control.h"

#include "environment.h"

namespace hgt {

struct Config;

/// A queue of the worker's own GPU, which computes products as the config asks; null if the device
/// is the CPU. Error(kDevice) if there is no GPU for the worker.
std::unique_ptr<CudaQueue> open_device(const Config& config, const Environment& environment);

/// Sets how much memory the job's plan may count on (hardware.gpu_bytes): the smallest of the
/// ranks' GPUs, because ranks that share layers make the same calls. All ranks call it, before
/// anything is allocated. The queue then computes attention as the config asks, which is logged; if
/// cuDNN is missing, a notice says so.
void plan_device(Config& config, const Environment& environment, ControlChannel& channel,
                 const CudaQueue& queue);

struct Connection {
  std::unique_ptr<Communicator> communicator;
  std::string backend_name;  ///< "NCCL", ...; "" for a worker on its own
};
/// Connects the ranks of a job with the backend of its config. `queue` is open_device's, and
/// outlives the communicator; once `aborted` is true, connecting ends.
Connection connect_ranks(ControlChannel& channel, const Config& job, const Environment& environment,
                         const CudaQueue* queue, const std::atomic<bool>* aborted = nullptr);

/// Connects the groups of the config's layout, all of which are parts of `world`. `name` is unique
/// in the job.
std::unique_ptr<ConnectedGroups> connect_groups(ControlChannel& channel, const Config& job,
                                                const Environment& environment,
                                                const CudaQueue* queue, Communicator& world,
                                                const std::atomic<bool>* aborted = nullptr,
                                                const std::string& name = "layout");

/// A second set of communicators for the same ranks, for host memory alone.
struct SaveGroup {
  std::unique_ptr<ControlChannel> channel;  ///< its own, so that heartbeats do not count saves
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<Communicator> tensor;  ///< null without tensor parallelism
  std::optional<Groups> groups;          ///< of these two communicators; nullopt if there are none

  void abort() noexcept;
};
/// Connects the ranks for saves in the background; empty if the job has none, or one rank.
SaveGroup connect_save_group(ControlChannel& channel, const Config& job,
                             const Environment& environment, const std::atomic<bool>* aborted);

/// Gives all ranks of the job access to the folders of rank 0's host, with a notice if some hosts
/// do not see them.
std::unique_ptr<OwnerFiles> connect_files(ControlChannel& channel, const Config& job,
                                          const Environment& environment, Communicator& world,
                                          const OwnerFiles::Folders& folders,
                                          const std::atomic<bool>* aborted);

/// A warning if NCCL chose a slower network than the machine has; "" if it did not.
std::string slower_network(const std::vector<std::string>& transports, const Network& network);
/// Reports over which transports NCCL has connected the ranks, according to its log.
void report_transports(ControlChannel& channel, const Environment& environment, const NcclLog& log);

/// Writes where each thread stands to stderr.
void show_stacks();

/// The main function of a rank that has nothing to save: runs `body` with the control channel, and
/// reports the exception that ends it. If the launcher or a peer ends the job, the process exits at
/// once. Returns the exit status.
int run_rank(const std::function<void(ControlChannel&)>& body);

}  // namespace hgt
