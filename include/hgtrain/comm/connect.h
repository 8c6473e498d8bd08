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
/// With a rank and a size, that of a rank which does alone what it would do with others: for work
/// whose results do not matter.
std::unique_ptr<Communicator> make_self_communicator(int rank = 0, int size = 1);

struct GroupOptions {
  std::string group = "world";  ///< prefix of its keys in the store, unique in the job
  const char* thread_name = "communication";  ///< in traces; a literal
  int rank = 0;
  int size = 1;
  std::vector<int> members = {};               ///< the job's rank of each; empty: the same
  std::chrono::milliseconds timeout{600000};   ///< to connect, and for each wait for a peer
  const std::atomic<bool>* aborted = nullptr;  ///< once true, connecting ends; not in shared memory

  /// The host of this rank, for connect_tcp(): ranks with the same name share it, one after another
  /// in the group. Empty: not known, or of no interest.
  std::string host = {};
  /// For a link between two stages of a pipeline: the stage of the other rank. Traces then call a
  /// broadcast a send or a receive.
  std::optional<int> peer_stage = {};

  /// Over NCCL, 16-bit values of device memory are exchanged, added in fp32 and rounded once, as on
  /// the CPU, and not rounded after each addition. It takes kReceivedBytes
  /// (parallel/shared_pieces.h) of the device.
  bool rounds_once = false;

  int job_rank(int of_group) const {
    return members.empty() ? of_group : members[static_cast<std::size_t>(of_group)];
  }
};

/// Connects ranks of one machine through shared memory (some 0.8 MB per rank). They meet
/// through the channel's store; the channel must outlive the communicator. Returns nullptr on every
/// rank if one of them cannot have that memory, such as on another machine. Sums run in rank order.
/// A lost rank is named, as over TCP. Error(kPeer) if a rank does not come within the timeout.
std::unique_ptr<Communicator> connect_shared_memory(ControlChannel& channel,
                                                    const GroupOptions& options);

/// Connects `size` ranks over TCP, at `address`, this rank's own, in numbers. They meet
/// through the channel's store; the channel must outlive the communicator. A rank listens on a port
/// of its own until all have connected; who cannot show the token that is in the store is dropped.
/// Nothing is encrypted. Sums run in rank order: the bits are those of shared memory. Each
/// collective begins with an exchange of its kind and number: a peer at another one, late or lost
/// is named. If several ranks share a host, and there are several hosts, values of an
/// all-reduce of 64 KiB or more pass between two hosts once in either direction, and through
/// shared memory within a host, with the same bits. The destructor waits until every rank is done
/// with the last collective. Error(kPeer) if a rank does not come within the timeout.
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
/// Splits groups off `world`, which connect_nccl made. All its ranks call this together, while no
/// collective of it is under way, each with the options of the group that it gets into, or of
/// size 0 if it gets into none: then the result is null. The groups are communicators of their own:
/// they may outlive `world`, and its failure or abort does not end them.
std::unique_ptr<Communicator> split_nccl(Communicator& world, const GroupOptions& group);

}  // namespace hgt
