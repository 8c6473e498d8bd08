#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hgtrain/base/error.h"
#include "hgtrain/comm/connect.h"

#include "peer_sockets.h"

namespace hgt {

/// Bytes to and from the other ranks of a group over TCP; every wait is bounded. Messages between
/// two ranks arrive in the order sent. Both ranks must know their sizes, because only the messages'
/// bytes are sent. One thread uses it; any thread may call abort(). Throws Error(kPeer) that names
/// the peer, also if its host stays silent for kMaxHostSilence.
class TcpTransport {
 public:
  TcpTransport(ControlChannel& channel, const GroupOptions& options, const std::string& address);
  ~TcpTransport();

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }

  /// A message on its way. Its memory must stay valid, and memory to receive into must not be
  /// touched, until wait() returns or the transfer is destroyed. Bytes move while any transfer is
  /// waited for, and in move_bytes(). If a transfer is destroyed before it is done, nothing can be
  /// sent or received any more.
  class Transfer {
   public:
    Transfer(Transfer&&) noexcept;
    ~Transfer();
    void wait();

   private:
    friend TcpTransport;
    struct State;
    explicit Transfer(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
  };

  /// Empty messages are skipped.
  Transfer send(std::span<const std::byte> out, int to);
  Transfer receive(std::span<std::byte> in, int from);

  /// Moves what all transfers can send and receive without waiting; false if that is nothing. A
  /// rank that waits for something else calls it again and again, because its peers may wait for
  /// bytes.
  bool move_bytes();

  /// Sends `out` to one rank while receiving all of `in` from another. Empty spans are skipped; the
  /// two must not overlap.
  void exchange(std::span<const std::byte> out, int to, std::span<std::byte> in, int from);

  /// Gives `mine` to every rank; `all` receives all ranks' in rank order (size() times as long).
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all);

  /// Waits some seconds until every rank has called it: after that no rank needs this one's
  /// connections. Never throws.
  void leave() noexcept;
  void abort() noexcept;

 private:
  /// The stream to a peer, and the transfers that wait for it in either direction, in order.
  struct Peer {
    OwnedFd socket;
    std::string address;  ///< of its host, which the kernel forgets if the stream fails
    std::deque<Transfer::State*> out, in;
  };

  Transfer start(Transfer::State state);
  void finish(Transfer::State& transfer);
  void drop(Transfer::State& transfer);
  bool move_bytes(int peer);
  void wait_for_sockets(std::int64_t until_ns);
  void look_for_silent_hosts();
  Error lost(int peer, const std::string& why, const std::string& hint = "") const;
  Error lost(int peer, int error) const;

  ControlChannel& channel_;
  const GroupOptions options_;
  std::vector<Peer> peers_;     ///< by rank; this rank's is not used
  const OwnedFd wake_;          ///< readable once abort() was called
  std::int64_t looked_ns_ = 0;  ///< for silent hosts
  std::atomic<bool> aborted_ = false;
};

}  // namespace hgt
