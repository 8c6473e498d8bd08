#include "master_port.h"

#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>
#include <system_error>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

#include "port_user.h"

namespace hgt {
namespace {

[[noreturn]] void refuse(int wanted, int error_number) {
  const std::string user = wanted ? port_user(wanted) : "";
  throw Error(
      ErrorKind::kDevice,
      fmt::format("cannot take port {} for MASTER_PORT: {}{}", wanted, std::strerror(error_number),
                  user.empty() ? "" : fmt::format(": {} listens there", user)),
      wanted ? "without --master_port a free one is chosen" : "");
}

}  // namespace

MasterPort::MasterPort(int wanted) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (fd_.get() < 0) throw std::system_error(errno, std::generic_category(), "MASTER_PORT");
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<in_port_t>(wanted));
  socklen_t length = sizeof address;
  if (setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    refuse(wanted, errno);
  number_ = ntohs(address.sin_port);
}

}  // namespace hgt
