#include "sockets.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <unistd.h>

#include "hgtrain/base/error.h"

namespace hgt::emulation {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::kPeer, "NCCL: " + what);
}

void give_to(int fd, const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  for (std::size_t sent = 0; sent < bytes;) {
    const ssize_t n = ::send(fd, at + sent, bytes - sent, MSG_NOSIGNAL);
    if (n <= 0) fail("a peer is gone");
    sent += static_cast<std::size_t>(n);
  }
}

void take_from(int fd, void* data, std::size_t bytes) {
  if (bytes > 0 && ::recv(fd, data, bytes, MSG_WAITALL) != static_cast<ssize_t>(bytes))
    fail("a peer is gone");
}

int open_socket(int flags) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
  if (fd < 0) fail(std::strerror(errno));
  return fd;
}

}  // namespace

Sockets::Sockets(const std::string& name, int rank, int size)
    : rank_(rank), size_(size), sockets_(static_cast<std::size_t>(size), -1) {
  // In the abstract namespace, which leaves no file behind.
  address_.sun_family = AF_UNIX;
  std::memcpy(address_.sun_path + 1, name.data(),
              std::min(name.size(), sizeof address_.sun_path - 1));
  if (rank == 0) listen();
}

Sockets::~Sockets() {
  for (const int fd : sockets_)
    if (fd >= 0) ::close(fd);
  if (listener_ >= 0) ::close(listener_);
}

void Sockets::listen() {
  listener_ = open_socket(SOCK_NONBLOCK);
  if (::bind(listener_, reinterpret_cast<const sockaddr*>(&address_), sizeof address_) != 0 ||
      ::listen(listener_, size_) != 0)
    fail(std::strerror(errno));
}

bool Sockets::connect() {
  return rank_ == 0 ? accept_more() : call_rank_0();
}

bool Sockets::accept_more() {
  for (int fd = 0; fd >= 0;) {
    fd = ::accept(listener_, nullptr, nullptr);
    if (fd < 0) continue;
    int rank = 0;
    take_from(fd, &rank, sizeof rank);
    sockets_.at(static_cast<std::size_t>(rank)) = fd;
  }
  return std::ranges::count(sockets_, -1) == 1;
}

bool Sockets::call_rank_0() {
  if (sockets_[0] >= 0) return true;
  const int fd = open_socket(0);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address_), sizeof address_) != 0) {
    ::close(fd);
    return false;
  }
  sockets_[0] = fd;
  give_to(fd, &rank_, sizeof rank_);
  return true;
}

void Sockets::give(int rank, const void* data, std::size_t bytes) const {
  give_to(sockets_[static_cast<std::size_t>(rank)], data, bytes);
}

void Sockets::take(int rank, void* data, std::size_t bytes) const {
  take_from(sockets_[static_cast<std::size_t>(rank)], data, bytes);
}

void Sockets::cut() const {
  for (const int fd : sockets_)
    if (fd >= 0) ::shutdown(fd, SHUT_RDWR);
}

}  // namespace hgt::emulation
