#include "master_port.h"

#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

MasterPort::MasterPort(int wanted) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<in_port_t>(wanted));
  socklen_t length = sizeof address;
  if (setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw Error(
        ErrorKind::kDevice,
        fmt::format("cannot take port {} for MASTER_PORT: {}", wanted, std::strerror(errno)),
        wanted ? fmt::format("`ss -ltnp sport = :{}` shows who has it; without "
                             "--master_port a free one is chosen",
                             wanted)
               : "");
  number_ = ntohs(address.sin_port);
}

}  // namespace hgt
