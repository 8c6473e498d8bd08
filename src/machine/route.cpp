#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/host.h"
#include "hgtrain/machine/network.h"

namespace hgt {

std::string address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int rc = ::getaddrinfo(host.c_str(), "9", &hints, &found); rc != 0)
    throw Error(ErrorKind::kPeer,
                fmt::format("cannot resolve the master's name '{}': {}", host, ::gai_strerror(rc)),
                "give an address, or a name that every host resolves: --master_addr, or addr= in "
                "the hostfile");
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    const int fd = ::socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    char text[NI_MAXHOST];
    // Connecting a datagram socket sends nothing: the kernel only chooses the route.
    const bool ok = ::connect(fd, a->ai_addr, a->ai_addrlen) == 0 &&
                    ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
                    ::getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof text,
                                  nullptr, 0, NI_NUMERICHOST) == 0;
    ::close(fd);
    if (ok) return text;
  }
  throw Error(
      ErrorKind::kPeer, fmt::format("{} has no route to {}", host_name(), host),
      "check the address (--master_addr, or addr= in the hostfile), and the network between "
      "the two");
}

}  // namespace hgt
