#include "tcp_transport.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/clock.h"

#include "aborted.h"

namespace hgt {
namespace {

constexpr std::chrono::milliseconds kPeerLeaveTimeout{5000};
constexpr std::int64_t kLookNs = 1'000'000'000;  // between looks for silent hosts

/// The numeric address at the other end.
std::string address_of_peer(const OwnedFd& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  char text[NI_MAXHOST] = "";
  ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&address), &length);
  ::getnameinfo(reinterpret_cast<sockaddr*>(&address), length, text, sizeof text, nullptr, 0,
                NI_NUMERICHOST);
  return text;
}

/// Whether bytes are on their way that the other host has not acknowledged for too long. The kernel
/// itself would wait for a quarter of an hour. TCP_USER_TIMEOUT does not serve here: it also counts
/// the time in which a process that is stopped takes no bytes, though its host answers.
bool is_unanswered(const OwnedFd& socket) {
  constexpr int kMinRepeats = 3;  // else this machine, too, may have stood still
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return false;
  const bool repeats = info.tcpi_unacked > 0 ? info.tcpi_retransmits >= kMinRepeats
                                             : info.tcpi_probes >= kMinRepeats;
  return repeats && std::chrono::milliseconds(info.tcpi_last_ack_recv) >= kMaxHostSilence;
}

}  // namespace

struct TcpTransport::Transfer::State {
  TcpTransport& transport;
  bool sends;
  int peer;
  std::byte* at;  ///< what is sent is only read
  std::size_t left;
};

TcpTransport::Transfer::Transfer(std::unique_ptr<State> state) : state_(std::move(state)) {}

TcpTransport::Transfer::Transfer(Transfer&&) noexcept = default;

TcpTransport::Transfer::~Transfer() {
  if (state_ && state_->left > 0) state_->transport.drop(*state_);
}

void TcpTransport::Transfer::wait() {
  if (state_) state_->transport.finish(*state_);
}

TcpTransport::TcpTransport(ControlChannel& channel, const GroupOptions& options,
                           const std::string& address)
    : channel_(channel),
      options_(options),
      peers_(static_cast<std::size_t>(options.size)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  std::vector<OwnedFd> sockets = connect_peers(channel, options_, address);
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    peers_[peer].address = address_of_peer(sockets[peer]);
    peers_[peer].socket = std::move(sockets[peer]);
  }
}

TcpTransport::~TcpTransport() = default;

// ---- transfers ----

TcpTransport::Transfer TcpTransport::start(Transfer::State state) {
  if (state.left == 0) return Transfer(nullptr);
  auto kept = std::make_unique<Transfer::State>(state);
  Peer& peer = peers_[static_cast<std::size_t>(state.peer)];
  auto& queue = state.sends ? peer.out : peer.in;
  queue.push_back(kept.get());
  Transfer out(std::move(kept));
  if (queue.size() == 1 && !aborted_)
    move_bytes(state.peer);  // sends as much as the kernel takes now
  return out;
}

TcpTransport::Transfer TcpTransport::send(std::span<const std::byte> out, int to) {
  return start({*this, true, to, const_cast<std::byte*>(out.data()), out.size()});
}

TcpTransport::Transfer TcpTransport::receive(std::span<std::byte> in, int from) {
  return start({*this, false, from, in.data(), in.size()});
}

/// Passes what can be passed to and from a peer without waiting; false if that is nothing.
bool TcpTransport::move_bytes(int peer) {
  Peer& stream = peers_[static_cast<std::size_t>(peer)];
  bool moved = false;
  for (auto* const queue : {&stream.out, &stream.in})
    while (!queue->empty()) {
      Transfer::State& transfer = *queue->front();
      const ssize_t bytes =
          transfer.sends ? ::send(stream.socket.get(), transfer.at, transfer.left, MSG_NOSIGNAL)
                         : ::recv(stream.socket.get(), transfer.at, transfer.left, 0);
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes < 0 && errno == EAGAIN) break;
      if (bytes < 0) throw lost(peer, errno);
      if (bytes == 0) throw lost(peer, "it has closed the connection");
      moved = true;
      transfer.at += bytes;
      transfer.left -= static_cast<std::size_t>(bytes);
      if (transfer.left == 0) queue->pop_front();
    }
  return moved;
}

bool TcpTransport::move_bytes() {
  bool moved = false;
  for (int peer = 0; peer < size(); ++peer) moved |= move_bytes(peer);
  if (!moved) look_for_silent_hosts();
  return moved;
}

void TcpTransport::look_for_silent_hosts() {
  if (awake_ns() - looked_ns_ < kLookNs) return;
  looked_ns_ = awake_ns();
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank() && is_unanswered(peers_[static_cast<std::size_t>(peer)].socket))
      throw lost(peer, ETIMEDOUT);
}

Error TcpTransport::lost(int peer, const std::string& why, const std::string& hint) const {
  return {ErrorKind::kPeer, fmt::format("lost rank {}: {}", options_.job_rank(peer), why), hint};
}

Error TcpTransport::lost(int peer, int error) const {
  if (error != ETIMEDOUT && error != EHOSTUNREACH && error != ENETUNREACH)
    return lost(peer, std::strerror(error));
  return lost(peer,
              fmt::format("nothing has come from its host, {}, for {} s: the network is cut",
                          peers_[static_cast<std::size_t>(peer)].address, kMaxHostSilence.count()),
              kCutNetworkHint);
}

/// Waits until the transfer is done, and moves the bytes of all others meanwhile.
void TcpTransport::finish(Transfer::State& transfer) {
  const std::int64_t until_ns = awake_ns() + std::chrono::nanoseconds(options_.timeout).count();
  while (transfer.left > 0) {
    if (aborted_) throw aborted_error();
    if (move_bytes()) continue;
    if (awake_ns() >= until_ns)
      throw Error(
          ErrorKind::kPeer,
          fmt::format("rank {} did not answer within {:g} s", options_.job_rank(transfer.peer),
                      static_cast<double>(options_.timeout.count()) * 1e-3),
          kCutNetworkHint);
    wait_for_sockets(until_ns);
  }
}

void TcpTransport::wait_for_sockets(std::int64_t until_ns) {
  std::vector<pollfd> sockets{{wake_.get(), POLLIN, 0}};
  for (const Peer& peer : peers_)
    if (!peer.out.empty() || !peer.in.empty())
      sockets.push_back(
          {peer.socket.get(),
           static_cast<short>((peer.out.empty() ? 0 : POLLOUT) | (peer.in.empty() ? 0 : POLLIN)),
           0});
  const std::int64_t left_ns = std::clamp<std::int64_t>(until_ns - awake_ns(), 0, kLookNs);
  ::poll(sockets.data(), sockets.size(), static_cast<int>(left_ns / 1'000'000 + 1));
}

/// Closes the stream, because it is in the middle of a message.
void TcpTransport::drop(Transfer::State& transfer) {
  Peer& peer = peers_[static_cast<std::size_t>(transfer.peer)];
  std::erase(transfer.sends ? peer.out : peer.in, &transfer);
  abort();
}

void TcpTransport::abort() noexcept {
  aborted_ = true;
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

// ---- operations made of transfers ----

void TcpTransport::exchange(std::span<const std::byte> out, int to, std::span<std::byte> in,
                            int from) {
  Transfer incoming = receive(in, from);
  Transfer outgoing = send(out, to);
  incoming.wait();
  outgoing.wait();
}

void TcpTransport::all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
  std::vector<Transfer> transfers;
  for (int peer = 0; peer < size(); ++peer) {
    const std::span<std::byte> theirs = all.subspan(peer * mine.size(), mine.size());
    if (peer == rank()) {
      std::copy(mine.begin(), mine.end(), theirs.begin());
      continue;
    }
    transfers.push_back(receive(theirs, peer));
    transfers.push_back(send(mine, peer));
  }
  for (Transfer& transfer : transfers) transfer.wait();
}

void TcpTransport::leave() noexcept {
  // Closing a connection drops data that are still on their way, so a rank needs a sign that there
  // are none, which must not come over these connections.
  const auto name = [&](int rank) { return fmt::format("comm/{}/left/{}", options_.group, rank); };
  try {
    channel_.set(name(rank()), "");
    for (int peer = 0; peer < size(); ++peer)
      channel_.get(name(peer), std::min(options_.timeout, kPeerLeaveTimeout));
  } catch (const std::exception&) {
    // A peer that failed will not come; its own error says why.
  }
}

}  // namespace hgt
