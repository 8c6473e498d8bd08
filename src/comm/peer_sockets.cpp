#include "peer_sockets.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <list>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sstream>
#include <sys/socket.h>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/log.h"
#include "hgtrain/wire/job_key.h"

#include "aborted.h"

namespace hgt {
namespace {

// The time in which a connection must prove itself.
constexpr std::int64_t kProofNs = 5'000'000'000;
// Unproven connections at a time; the oldest is dropped for one more.
constexpr std::size_t kMaxStrangers = 64;
// Between looks whether the job is aborted.
constexpr std::int64_t kCheckNs = 100'000'000;
// Between lines about dropped connections.
constexpr std::int64_t kReportNs = 10'000'000'000;
// How long a host may have no route.
constexpr std::int64_t kNoRouteNs = 10'000'000'000;

constexpr const char* kConnectHint =
    "the hosts' firewalls must let the ranks connect to each other: hgtrain doctor --links, with "
    "the hosts of the job's command, tries it; iface=NAME in a hostfile chooses another network";

struct Address {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Address address_of(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0)
    throw Error(ErrorKind::kPeer, fmt::format("'{}' is not the address of a rank", host));
  Address out;
  out.length = found->ai_addrlen;
  std::memcpy(&out.storage, found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  return out;
}

[[noreturn]] void throw_system(const std::string& what) {
  throw Error(ErrorKind::kPeer, fmt::format("{}: {}", what, std::strerror(errno)));
}

OwnedFd make_socket(int family) {
  OwnedFd out(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (out.get() < 0) throw_system("no socket to connect ranks");
  return out;
}

/// The first message of a rank that connects: the token of the rank that it calls, and its own
/// rank. The answer is the caller's own token.
struct Proof {
  std::array<char, 64> token;
  std::array<char, 8> rank;
};

Proof proof_of(const std::string& token, int rank) {
  Proof out;
  token.copy(out.token.data(), out.token.size());
  fmt::format("{:08}", rank).copy(out.rank.data(), out.rank.size());
  return out;
}

/// Where a rank listens, and the token of this group that only ranks of the job know.
struct Endpoint {
  std::string address, port, token;
};

class Meeting {
 public:
  Meeting(ControlChannel& channel, const GroupOptions& options, const std::string& address)
      : channel_(channel),
        options_(options),
        until_ns_(awake_ns() + std::chrono::nanoseconds(options.timeout).count()),
        own_{address, "0", JobKey::random().hex()},
        sockets_(static_cast<std::size_t>(options.size)),
        endpoints_(sockets_.size()) {}
  ~Meeting() { report_dropped(); }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  std::vector<OwnedFd> run() {
    listen();
    for (int rank = 0; rank < options_.size; ++rank)
      if (rank != options_.rank) endpoints_[static_cast<std::size_t>(rank)] = endpoint_of(rank);
    for (int rank = 0; rank < options_.rank; ++rank) call(rank);
    for (int left = options_.size - 1 - options_.rank; left > 0;) left -= accept_some();
    return std::move(sockets_);
  }

 private:
  /// A connection that has not proved yet that it comes from a rank.
  struct Stranger {
    OwnedFd socket;
    std::int64_t since_ns;
    Proof proof{};
    std::size_t bytes = 0;
  };

  std::string key(int rank) const {
    return fmt::format("comm/{}/endpoint of {}", options_.group, rank);
  }

  void listen() {
    Address address = address_of(own_.address, "0");
    listener_ = make_socket(address.storage.ss_family);
    if (::bind(listener_.get(), address.get(), address.length) != 0 ||
        ::listen(listener_.get(), SOMAXCONN) != 0 ||
        ::getsockname(listener_.get(), address.get(), &address.length) != 0)
      throw_system("cannot listen for other ranks at " + own_.address);
    const auto* const v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    own_.port =
        std::to_string(ntohs(address.storage.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port));
    channel_.set(key(options_.rank), fmt::format("{} {} {}", own_.address, own_.port, own_.token));
  }

  Endpoint endpoint_of(int rank) {
    std::istringstream text(channel_.get(key(rank), options_.timeout));
    Endpoint out;
    if (!(text >> out.address >> out.port >> out.token) || out.token.size() != own_.token.size())
      throw Error(ErrorKind::kPeer,
                  fmt::format("rank {} did not give its address", options_.job_rank(rank)));
    return out;
  }

  /// Waits until the socket is ready, or a moment. False if the time is over.
  bool wait_for(std::vector<pollfd> sockets) {
    if (options_.aborted && *options_.aborted) throw aborted_error();
    const std::int64_t left_ns = until_ns_ - awake_ns();
    if (left_ns <= 0) return false;
    ::poll(sockets.data(), sockets.size(),
           static_cast<int>(std::min(left_ns, kCheckNs) / 1'000'000 + 1));
    return true;
  }

  [[noreturn]] void refuse(int rank, const std::string& why) {
    const Endpoint& peer = endpoints_[static_cast<std::size_t>(rank)];
    throw Error(ErrorKind::kPeer,
                fmt::format("cannot connect to rank {} at {}, port {}: {}", options_.job_rank(rank),
                            peer.address, peer.port, why),
                kConnectHint);
  }

  /// Connects to a rank that listens, and both ends prove themselves. If many strangers connect
  /// there, the rank may drop this connection for one of theirs; then it is tried again.
  void call(int rank) {
    while (!call_once(rank))
      if (!wait_for({})) refuse(rank, "it hung up");
  }

  /// False if the rank hung up.
  bool call_once(int rank) {
    const Endpoint& peer = endpoints_[static_cast<std::size_t>(rank)];
    OwnedFd socket = connected(rank);
    const Proof proof = proof_of(peer.token, options_.rank);
    std::string_view out(reinterpret_cast<const char*>(&proof), sizeof proof);
    std::string answer;
    while (answer.size() < own_.token.size()) {
      const bool sends = !out.empty();
      if (!wait_for({{socket.get(), static_cast<short>(sends ? POLLOUT : POLLIN), 0}}))
        refuse(rank, "it does not answer");
      char buffer[64];
      const ssize_t bytes =
          sends ? ::send(socket.get(), out.data(), out.size(), MSG_NOSIGNAL)
                : ::recv(socket.get(), buffer, own_.token.size() - answer.size(), 0);
      if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (bytes == 0 || (bytes < 0 && (errno == ECONNRESET || errno == EPIPE))) return false;
      if (bytes < 0) refuse(rank, std::strerror(errno));
      if (sends)
        out.remove_prefix(static_cast<std::size_t>(bytes));
      else
        answer.append(buffer, static_cast<std::size_t>(bytes));
    }
    if (!JobKey::parse(answer).matches(JobKey::parse(own_.token)))
      refuse(rank, "another process listens there");
    keep(rank, std::move(socket));
    return true;
  }

  /// Retries for a while if there is no route, which a host that was cut off lacks for some seconds
  /// after it can be reached again.
  OwnedFd connected(int rank) {
    const std::int64_t patience_ns = awake_ns() + kNoRouteNs;
    for (bool is_told = false;;) {
      int error = 0;
      if (OwnedFd socket = try_to_connect(rank, error); error == 0) return socket;
      const std::string why = error == ETIMEDOUT ? "it does not answer" : std::strerror(error);
      const bool is_cut = error == EHOSTUNREACH || error == ENETUNREACH || error == ETIMEDOUT;
      const bool waits =
          options_.waits_for_network ? is_cut : error == EHOSTUNREACH && awake_ns() < patience_ns;
      if (waits && options_.waits_for_network && !std::exchange(is_told, true)) tell(rank, why);
      if (!waits || !wait_for({})) refuse(rank, why);
    }
  }

  /// One rank is enough to say it.
  void tell(int rank, const std::string& why) {
    if (options_.rank + 1 < options_.size) return;
    channel_.send("notice",
                  {{"text", fmt::format("rank {} cannot reach rank {} at {}: {}; it goes "
                                        "on trying for up to {:.0f} s",
                                        options_.job_rank(options_.rank), options_.job_rank(rank),
                                        endpoints_[static_cast<std::size_t>(rank)].address, why,
                                        static_cast<double>(until_ns_ - awake_ns()) * 1e-9)}});
  }

  /// A connected socket, or one with an error. The rank listens, so its host answers soon.
  OwnedFd try_to_connect(int rank, int& error) {
    const Endpoint& peer = endpoints_[static_cast<std::size_t>(rank)];
    const std::int64_t patience_ns = awake_ns() + std::chrono::nanoseconds(kMaxHostSilence).count();
    Address address = address_of(peer.address, peer.port);
    OwnedFd socket = make_socket(address.storage.ss_family);
    error = ::connect(socket.get(), address.get(), address.length) == 0 ? 0 : errno;
    while (error == EINPROGRESS || error == EINTR) {
      pollfd ready{socket.get(), POLLOUT, 0};
      if (!wait_for({ready}) || awake_ns() >= patience_ns) {
        error = ETIMEDOUT;
        break;
      }
      if (::poll(&ready, 1, 0) == 0) continue;
      socklen_t length = sizeof error;
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    }
    return socket;
  }

  void keep(int rank, OwnedFd socket) {
    const auto set = [&](int level, int option, int value) {
      ::setsockopt(socket.get(), level, option, &value, sizeof value);
    };
    set(IPPROTO_TCP, TCP_NODELAY, 1);
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    constexpr int kSeconds = kMaxHostSilence.count() / 4;  // one quarter is idle, then three calls
    set(IPPROTO_TCP, TCP_KEEPIDLE, kSeconds);
    set(IPPROTO_TCP, TCP_KEEPINTVL, kSeconds);
    set(IPPROTO_TCP, TCP_KEEPCNT, 3);
    sockets_[static_cast<std::size_t>(rank)] = std::move(socket);
  }

  /// Waits for connections, and returns how many of them proved to be ranks.
  int accept_some() {
    std::vector<pollfd> sockets{{listener_.get(), POLLIN, 0}};
    for (const Stranger& stranger : strangers_)
      sockets.push_back({stranger.socket.get(), POLLIN, 0});
    if (!wait_for(std::move(sockets))) throw_missing();
    OwnedFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() >= 0) strangers_.push_back({std::move(socket), awake_ns()});
    int ranks = 0;
    std::erase_if(strangers_, [&](Stranger& stranger) {
      const int known = hear(stranger);
      ranks += known;
      return known > 0 || stranger.socket.get() < 0;
    });
    if (strangers_.size() > kMaxStrangers) strangers_.pop_front();
    return ranks;
  }

  /// 1 if it has proven to be a rank; it has no socket any more if it is dropped.
  int hear(Stranger& stranger) {
    char* const proof = reinterpret_cast<char*>(&stranger.proof);
    const ssize_t bytes =
        ::recv(stranger.socket.get(), proof + stranger.bytes, sizeof(Proof) - stranger.bytes, 0);
    if (bytes > 0) stranger.bytes += static_cast<std::size_t>(bytes);
    const bool waits = bytes > 0 || (bytes < 0 && (errno == EAGAIN || errno == EINTR));
    if (stranger.bytes < sizeof(Proof) && waits && awake_ns() - stranger.since_ns < kProofNs)
      return 0;
    OwnedFd socket = std::move(stranger.socket);
    const int rank = stranger.bytes == sizeof(Proof) ? rank_in(stranger.proof) : -1;
    if (rank < 0) {
      ++dropped_;
      if (awake_ns() - reported_ns_ >= kReportNs) report_dropped();
      return 0;
    }
    const std::string& token = endpoints_[static_cast<std::size_t>(rank)].token;
    if (::send(socket.get(), token.data(), token.size(), MSG_NOSIGNAL) != std::ssize(token))
      return 0;  // the rank has hung up; its own error says why
    keep(rank, std::move(socket));
    return 1;
  }

  /// A flood of strangers must not fill the log.
  void report_dropped() {
    if (dropped_ == 0) return;
    log_warning("dropped {} at the port of rank {} without the token of this job",
                dropped_ == 1 ? "a connection" : fmt::format("{} connections", dropped_),
                options_.job_rank(options_.rank));
    dropped_ = 0;
    reported_ns_ = awake_ns();
  }

  /// The rank that it proves to be, one that is to call and has not yet; -1 if it is none.
  int rank_in(const Proof& proof) const {
    const std::string_view token(proof.token.data(), proof.token.size());
    if (!JobKey::parse(token).matches(JobKey::parse(own_.token))) return -1;
    const int rank = std::atoi(std::string(proof.rank.data(), proof.rank.size()).c_str());
    const bool is_awaited = rank > options_.rank && rank < options_.size &&
                            sockets_[static_cast<std::size_t>(rank)].get() < 0;
    return is_awaited ? rank : -1;
  }

  [[noreturn]] void throw_missing() const {
    for (int rank = options_.rank + 1; rank < options_.size; ++rank)
      if (sockets_[static_cast<std::size_t>(rank)].get() < 0)
        throw Error(ErrorKind::kPeer,
                    fmt::format("rank {} did not connect within {:g} s", options_.job_rank(rank),
                                static_cast<double>(options_.timeout.count()) * 1e-3),
                    kConnectHint);
    throw Error(ErrorKind::kInternal, "no rank is missing");
  }

  ControlChannel& channel_;
  const GroupOptions& options_;
  const std::int64_t until_ns_;
  Endpoint own_;
  OwnedFd listener_;
  std::vector<OwnedFd> sockets_;     // by rank
  std::vector<Endpoint> endpoints_;  // by rank
  std::list<Stranger> strangers_;
  int dropped_ = 0;  // since the last line about it
  std::int64_t reported_ns_ = -kReportNs;
};

}  // namespace

std::vector<OwnedFd> connect_peers(ControlChannel& channel, const GroupOptions& options,
                                   const std::string& address) {
  return Meeting(channel, options, address).run();
}

}  // namespace hgt
