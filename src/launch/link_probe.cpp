#include "link_probe.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"

namespace hgt {
namespace {

constexpr std::int64_t kLinkLimitNs = 15'000'000'000;  // of a listener
constexpr int kStepLimitSeconds = 3;                   // of any read, write or connect
constexpr int kRoundTrips = 20;
constexpr std::int64_t kSendNs = 300'000'000;
constexpr std::size_t kPieceBytes = 1 << 20;
constexpr std::int64_t kGuestLimitNs = 1'000'000'000;
constexpr std::size_t kMaxGuests = 64;
constexpr int kTickMs = 100;  // between looks at who has stayed too long

struct Address {
  explicit Address(const std::string& host, int port) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    const int result = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
    if (result != 0)
      throw Error(ErrorKind::kPeer,
                  fmt::format("'{}' is not an address: {}", host, gai_strerror(result)));
  }
  ~Address() { ::freeaddrinfo(list); }
  Address(const Address&) = delete;
  Address& operator=(const Address&) = delete;
  addrinfo* list = nullptr;
};

void set_limits(int fd, int seconds) {
  const timeval limit{seconds, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool read_all(int fd, char* to, std::size_t size) {
  while (size > 0) {
    const ssize_t bytes = ::recv(fd, to, size, 0);
    if (bytes <= 0) return false;
    to += bytes;
    size -= static_cast<std::size_t>(bytes);
  }
  return true;
}

bool write_all(int fd, const char* from, std::size_t size) {
  while (size > 0) {
    const ssize_t bytes = ::send(fd, from, size, MSG_NOSIGNAL);
    if (bytes <= 0) return false;
    from += bytes;
    size -= static_cast<std::size_t>(bytes);
  }
  return true;
}

/// Echoes the bytes of the round trips, then takes all that comes, and says so with one byte.
void answer(int fd) {
  set_limits(fd, kStepLimitSeconds);
  char byte = 0;
  for (int i = 0; i < kRoundTrips; ++i)
    if (!read_all(fd, &byte, 1) || !write_all(fd, &byte, 1)) return;
  std::vector<char> piece(kPieceBytes);
  while (::recv(fd, piece.data(), piece.size(), 0) > 0) continue;
  write_all(fd, &byte, 1);
}

/// A connection that has not sent the whole token yet.
struct Guest {
  OwnedFd fd;
  std::int64_t until_ns;
  std::string shown;
};

/// Takes what has come.
bool may_stay(Guest& guest, const std::string& token) {
  std::string piece(token.size() - guest.shown.size(), '\0');
  const ssize_t bytes = ::recv(guest.fd.get(), piece.data(), piece.size(), MSG_DONTWAIT);
  if (bytes <= 0) return bytes < 0 && errno == EAGAIN && now_ns() < guest.until_ns;
  guest.shown.append(piece, 0, static_cast<std::size_t>(bytes));
  return token.starts_with(guest.shown) && now_ns() < guest.until_ns;
}

[[noreturn]] void fail(const std::string& what) {
  const std::string why =
      errno == EAGAIN || errno == EINPROGRESS ? "it takes too long" : std::strerror(errno);
  throw Error(ErrorKind::kPeer, fmt::format("{}: {}", what, why));
}

}  // namespace

LinkListener::LinkListener(const std::string& address, std::string token)
    : token_(std::move(token)) {
  const Address here(address, 0);
  listener_ = OwnedFd(::socket(here.list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  int ends[2];
  if (listener_.get() < 0 ||
      ::bind(listener_.get(), here.list->ai_addr, here.list->ai_addrlen) != 0 ||
      ::listen(listener_.get(), SOMAXCONN) != 0 ||
      ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0 ||
      ::pipe2(ends, O_CLOEXEC) != 0)
    throw Error(ErrorKind::kDevice,
                fmt::format("it cannot listen at {}: {}", address, std::strerror(errno)));
  stopped_ = OwnedFd(ends[0]);
  stop_ = OwnedFd(ends[1]);
  port_ = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                            : reinterpret_cast<sockaddr_in&>(bound).sin_port);
  thread_ = std::thread([this] { serve(); });
}

LinkListener::~LinkListener() {
  stop_ = OwnedFd();
  thread_.join();
}

void LinkListener::serve() const {
  const std::int64_t deadline = now_ns() + kLinkLimitNs;
  std::deque<Guest> guests;
  while (now_ns() < deadline) {
    std::vector<pollfd> wait{{listener_.get(), POLLIN, 0}, {stopped_.get(), POLLIN, 0}};
    for (const Guest& guest : guests) wait.push_back({guest.fd.get(), POLLIN, 0});
    ::poll(wait.data(), wait.size(), kTickMs);
    if (wait[1].revents != 0) return;
    std::erase_if(guests, [&](Guest& guest) { return !may_stay(guest, token_); });
    const auto proven = std::ranges::find(guests, token_, &Guest::shown);
    if (proven != guests.end()) return answer(proven->fd.get());
    if (wait[0].revents == 0) continue;
    OwnedFd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (peer.get() < 0) continue;
    guests.push_back({std::move(peer), now_ns() + kGuestLimitNs, ""});
    if (guests.size() > kMaxGuests) guests.pop_front();
  }
}

LinkFigures measure_link(const std::string& address, int port, const std::string& token) {
  const Address there(address, port);
  const OwnedFd fd(::socket(there.list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) fail("no socket");
  set_limits(fd.get(), kStepLimitSeconds);
  if (::connect(fd.get(), there.list->ai_addr, there.list->ai_addrlen) != 0)
    fail(fmt::format("cannot connect to {} port {}", address, port));
  const std::string lost = fmt::format("the connection to {} port {} has ended", address, port);
  errno = 0;
  if (!write_all(fd.get(), token.data(), token.size())) fail(lost);
  LinkFigures out;
  char byte = 0;
  for (int i = 0; i < kRoundTrips; ++i) {
    const std::int64_t start = now_ns();
    if (!write_all(fd.get(), &byte, 1) || !read_all(fd.get(), &byte, 1)) fail(lost);
    const std::int64_t took = now_ns() - start;
    out.round_trip_ns = i == 0 ? took : std::min(out.round_trip_ns, took);
  }
  const std::vector<char> piece(kPieceBytes);
  const std::int64_t start = now_ns();
  std::int64_t bytes = 0;
  for (; now_ns() - start < kSendNs; bytes += std::ssize(piece))
    if (!write_all(fd.get(), piece.data(), piece.size())) fail(lost);
  ::shutdown(fd.get(), SHUT_WR);
  if (!read_all(fd.get(), &byte, 1)) fail(lost);
  out.bytes_per_second = static_cast<std::int64_t>(static_cast<double>(bytes) * 1e9 /
                                                   static_cast<double>(now_ns() - start));
  return out;
}

}  // namespace hgt
