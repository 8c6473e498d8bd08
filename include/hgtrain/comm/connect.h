#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hgtrain/comm/communicator.h"
#include "hgtrain/wire/control.h"

namespace hgt {

class CudaQueue;

/// The communicator of a world of one: every sum is its own operand. Only abort() makes it fail.
/// With `rank` and `size`, it stands in for a larger group, and the rank does its own part alone:
/// for work whose results do not matter, such as timing.
std::unique_ptr<Communicator> make_self_communicator(int rank = 0, int size = 1);

struct GroupOptions {
  std::string group = "world";  ///< prefix of its keys in the store, unique in the job
  const char* thread_name = "communication";  ///< in traces; a literal
  int rank = 0;
  int size = 1;
  /// The job's rank of each member; empty: the group's ranks are the job's.
  std::vector<int> members = {};
  std::chrono::milliseconds timeout{600000};  ///< to connect, and for each wait for a peer
  /// Over TCP, a rank that cannot be reached is called until the timeout, instead of for seconds:
  /// the job has failed before, maybe because its network did.
  bool waits_for_network = false;
  const std::atomic<bool>* aborted = nullptr;  ///< once true, connecting ends; not in shared memory

  /// The host of this rank, for connect_tcp(). Ranks with the same name share a host and follow
  /// each other in the group. Empty: not known, or not needed.
  std::string host = {};
  /// For a link between two stages of a pipeline: the stage of the other rank. Traces then call a
  /// broadcast a send or a receive.
  std::optional<int> peer_stage = {};

  /// Over NCCL, 16-bit values in device memory are exchanged, added in fp32 and rounded once, as on
  /// the CPU, instead of being rounded after each addition. This takes kReceivedBytes
  /// (parallel/shared_pieces.h) of device memory.
  bool rounds_once = false;

  int job_rank(int of_group) const {
    return members.empty() ? of_group : members[static_cast<std::size_t>(of_group)];
  }
};

/// Connects ranks of one machine through shared memory (some 0.8 MB per rank). They meet
/// through the channel's store; the channel must outlive the communicator. Returns nullptr on every
/// rank if one of them cannot map that memory, for example because it runs on another machine. Sums
/// run in rank order. A lost rank is named, as over TCP. Error(kPeer) if a rank does not come
/// within the timeout.
std::unique_ptr<Communicator> connect_shared_memory(ControlChannel& channel,
                                                    const GroupOptions& options);

/// Connects `size` ranks over TCP; `address` is this rank's own numeric IP address. They meet
/// through the channel's store; the channel must outlive the communicator. A rank listens on a port
/// of its own until all have connected, and drops connections that do not send the token from the
/// store. Nothing is encrypted. Sums run in rank order: the bits are those of shared memory. Each
/// collective begins with an exchange of its kind and number, so an error names a peer that is at
/// another collective, late or lost. If several ranks share a host, and there are several hosts,
/// values of an all-reduce of 64 KiB or more pass between two hosts once in either direction, and
/// through shared memory within a host, with the same bits. The destructor waits until every rank
/// is done with the last collective. Error(kPeer) if a rank does not come within the timeout.
///
/// With `compute`, which must outlive the communicator, spans may also be that GPU's memory. It is
/// copied through page-locked host memory, after the work that `compute` has when the collective is
/// entered, and the result is there when wait() returns. Slow: for GPUs that NCCL cannot connect.
std::unique_ptr<Communicator> connect_tcp(ControlChannel& channel, const GroupOptions& options,
                                          const std::string& address = "127.0.0.1",
                                          const CudaQueue* compute = nullptr);

/// Connects ranks with one CUDA device each over NCCL. They meet through the channel's store; the
/// channel must outlive the communicator. A collective of device memory runs on a queue of its own,
/// after the work that `compute` has when it is entered. The host waits for nothing: work that
/// `compute` gets after wait() runs after the result. A later call throws what goes wrong, also a
/// peer that does not come within the timeout; the contents of the memory are then undefined. A
/// collective of host memory is staged through the device, begins with an exchange of its kind and
/// number, and is done when it returns. One thread uses it, except for abort().
std::unique_ptr<Communicator> connect_nccl(ControlChannel& channel, const CudaQueue& compute,
                                           const GroupOptions& options);
/// Splits groups off `world`, which connect_nccl made. All its ranks call this together while no
/// collective of it is under way, each with the options of the group that it joins. A rank that
/// joins none passes size 0, and gets null. The groups are communicators of their own: they may
/// outlive `world`, and its failure or abort does not end them.
std::unique_ptr<Communicator> split_nccl(Communicator& world, const GroupOptions& group);

}  // namespace hgt
