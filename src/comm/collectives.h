#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "hgtrain/comm/communicator.h"
#include "hgtrain/comm/connect.h"
#include "hgtrain/wire/control.h"

namespace hgt {

class CudaQueue;

/// How a group of ranks does its collectives: over TCP or NCCL. All calls except `entered` and
/// `abort` come from one thread, and are the same on all ranks in the same order; each returns when
/// this rank's result is there, after a bounded time, or throws Error(kPeer).
class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Called on the communicator's calling thread when it enters a collective, in the order of the
  /// collectives. The collective must run after the work that this thread has queued on its device
  /// so far.
  virtual void entered() {}

  /// Begins each collective: sends `mine` to every rank; `all` receives all ranks' bytes in rank
  /// order (size() times as long).
  virtual void announce(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  /// fp32, fp64, bf16 or fp16 values.
  virtual void sum(std::span<std::byte> values, DType type) = 0;
  /// Likewise. See Communicator about `parts`, which have been checked.
  virtual void reduce_scatter(std::span<std::byte> values, DType type,
                              std::span<const OwnedRange> parts) = 0;
  virtual void all_gather(std::span<std::byte> values, std::span<const OwnedRange> parts) = 0;
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;

  /// The normal end: waits some seconds for ranks that are not done. Never throws.
  virtual void leave() noexcept = 0;
  /// Makes pending and later calls throw. Any thread may call it.
  virtual void abort() noexcept = 0;
};

/// Collectives of host memory and, if `compute` is not null, of that GPU's memory too, through
/// page-locked host memory.
std::unique_ptr<Collectives> stage_for(const CudaQueue* compute, std::unique_ptr<Collectives> host);

/// A communicator that runs the collectives in call order on a thread of its own, each after all
/// ranks agreed on its kind and number.
std::unique_ptr<Communicator> make_queued_communicator(ControlChannel& channel,
                                                       std::unique_ptr<Collectives> collectives,
                                                       const GroupOptions& options = {});

}  // namespace hgt
