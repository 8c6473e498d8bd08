#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "hgtrain/comm/communicator.h"
#include "hgtrain/wire/control.h"

namespace hgt {

class CudaQueue;

/// The communicator of a world of one: every sum is its own operand. Nothing can fail but abort().
std::unique_ptr<Communicator> make_self_communicator();

struct GroupOptions {
  std::string group = "world";  ///< prefix of its keys in the store: one per communicator of a job
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{600000};   ///< to connect, and of each wait for one peer
  const std::atomic<bool>* aborted = nullptr;  ///< once true, connecting ends; over NCCL
};

/// Connects ranks of one machine through memory in /dev/shm (some 0.8 MB a rank), meeting through
/// the channel's store; the channel outlives it. nullptr, on every rank, where one of them cannot
/// have that memory, as on another machine. Sums are added in rank order. A rank that is gone is
/// named, as with Gloo. Throws Error(kPeer) where one does not come within the timeout.
std::unique_ptr<Communicator> connect_shared_memory(ControlChannel& channel,
                                                    const GroupOptions& options);

/// Connects `size` ranks over TCP, by the interface of the route to `master_host`, meeting through
/// the channel's store; the channel outlives it. Sums run in a ring (reduce-scatter, then
/// all-gather), so their order follows from the group size alone. Each collective begins with an
/// exchange of what it is: a peer that is elsewhere, late or gone is named. Destroying it waits
/// until every rank is done with the last collective. Throws Error(kPeer) where a rank does not
/// come within the timeout.
///
/// With `compute`, which outlives it, memory of that GPU may be given as well: it goes through
/// page-locked host memory, after what `compute` has been given when the collective is entered, and
/// is done when wait() returns. Slow: for GPUs that NCCL cannot join.
std::unique_ptr<Communicator> connect_gloo(ControlChannel& channel, const GroupOptions& options,
                                           const std::string& master_host = "127.0.0.1",
                                           const CudaQueue* compute = nullptr);

/// Connects ranks of one CUDA device each over NCCL, meeting through the channel's store; the
/// channel outlives it. A collective of device memory runs on a queue of its own, behind what
/// `compute` has been given when it is entered; the host waits for nothing: what `compute` is given
/// after wait() comes behind the result. What goes wrong with it, a peer that does not come within
/// the timeout too, is thrown by a later call; the memory then holds anything. One of host memory
/// is staged through the device, begins with an exchange of what it is, and is done when it
/// returns. Used by one thread but for abort().
std::unique_ptr<Communicator> connect_nccl(ControlChannel& channel, const CudaQueue& compute,
                                           const GroupOptions& options);

}  // namespace hgt
