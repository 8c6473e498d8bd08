#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>

#include "hgtrain/base/owned_fd.h"

namespace hgt {

/// A server of this process on a port of all addresses, with SO_REUSEADDR as PyTorch's store.
class Listener {
 public:
  /// 0 = any free port.
  explicit Listener(int port, bool listens = true) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    const int on = 1;
    setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<in_port_t>(port));
    socklen_t length = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(bind(fd_.get(), any, length) == 0);
    REQUIRE(getsockname(fd_.get(), any, &length) == 0);
    if (listens) REQUIRE(listen(fd_.get(), 5) == 0);
    port_ = ntohs(address.sin_port);
  }
  int port() const { return port_; }

 private:
  OwnedFd fd_;
  int port_ = 0;
};

}  // namespace hgt
