#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>

#include "hgtrain/base/error.h"
#include "hgtrain/comm/connect.h"
#include "hgtrain/device/cuda_queue.h"

#include "cuda_comm_table.h"

namespace hgt {

/// A communicator of NCCL that is connecting: rank 0 tells the others its id over the channel.
CudaCommState* start_connecting(ControlChannel& channel, const CudaQueue& compute,
                                const GroupOptions& options);

/// A communicator of NCCL, none of whose calls block: waits for it, with deadlines. It keeps the
/// first failure, after which all calls throw it. Thread-safe.
class NcclConnection {
 public:
  using Clock = std::chrono::steady_clock;
  using Call = std::function<CudaResult(CudaCommState* comm)>;

  /// `comm` becomes this object's; call abort() or leave() in the end.
  NcclConnection(const CudaCommTable& nccl, const GroupOptions& options, CudaCommState* comm)
      : nccl_(nccl), options_(options), comm_(comm) {}

  /// Starts a split. Null on a rank that is not in the group.
  CudaCommState* split(const GroupOptions& group);

  /// Makes a call, unless NCCL was aborted. Wait until NCCL is ready before the next.
  void call(const Call& make);
  /// Makes a call, and waits until NCCL takes the next one.
  void enter(const Call& make);
  /// Whether NCCL is ready; throws what failed here or at a peer.
  bool ready();
  void wait_until_ready(Clock::time_point deadline);
  /// Polls until `condition` is true. Throws at the deadline.
  void wait_until(const std::function<bool()>& condition, Clock::time_point deadline) const;

  std::chrono::milliseconds timeout() const { return options_.timeout; }
  /// The time at which peers that are waited for from now on are too late.
  Clock::time_point deadline() const { return Clock::now() + options_.timeout; }
  /// The other ranks have not come within the timeout.
  Error timeout_error() const;

  /// Throws the failure if there is one.
  void check() const;
  bool has_failed() const;
  /// Keeps the failure if it is the first.
  void fail(const Error& error);
  /// Ends NCCL's work on this rank's device. May wait for peers on other machines; other threads
  /// get the failure meanwhile.
  void abort() noexcept;
  /// The normal end: waits some seconds for ranks that are not done.
  void leave() noexcept;

 private:
  const CudaCommTable& nccl_;
  const GroupOptions options_;
  mutable std::mutex mutex_;  ///< guards what follows
  CudaCommState* comm_;
  std::optional<Error> failure_;
};

}  // namespace hgt
