#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "hgtrain/comm/communicator.h"
#include "hgtrain/wire/control.h"

namespace hgt {

class CudaQueue;

/// How a group of ranks does its collectives: over Gloo, over NCCL. All but `entered` and `abort`
/// are called by one thread, the same on all ranks in the same order; each returns when this rank's
/// result is there, after a bounded time, or throws Error(kPeer).
class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// The caller of the communicator enters a collective: it comes after what that thread has queued
  /// on its device so far. Called in the order of the collectives.
  virtual void entered() {}

  /// Begins each collective. Gives `mine` to every rank; theirs come in rank order into `all`
  /// (size() times as long).
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  virtual void sum(std::span<float> values) = 0;
  virtual void sum(std::span<double> values) = 0;
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;

  /// The normal end: waits, for some seconds, for ranks that are not done. Never throws.
  virtual void leave() noexcept = 0;
  /// From any thread: what is waiting, and all that is called later, throws.
  virtual void abort() noexcept = 0;
};

/// The host's collectives, of that GPU's memory too where there is a queue: through page-locked
/// memory of the host.
std::unique_ptr<Collectives> stage_for(const CudaQueue* compute, std::unique_ptr<Collectives> host);

/// A communicator that runs the collectives in call order on a thread of its own, each after all
/// ranks agreed on what it is.
std::unique_ptr<Communicator> make_queued_communicator(ControlChannel& channel,
                                                       std::unique_ptr<Collectives> collectives);

}  // namespace hgt
