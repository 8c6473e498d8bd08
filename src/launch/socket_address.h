#pragma once

#include <cstdio>
#include <fcntl.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>

#include "job_messages.h"

namespace hgt {

/// The folder of a run, to pass to SocketAddress; -1 with errno if it cannot be opened.
inline int open_folder(const std::string& folder) {
  return ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/// The address of control.sock in an open folder. The path of the folder may be longer than the
/// 108 bytes of an address, so the address is relative to its descriptor.
class SocketAddress {
 public:
  explicit SocketAddress(int folder) {
    std::snprintf(address_.sun_path, sizeof address_.sun_path, "/proc/self/fd/%d/%s", folder,
                  kSocketName);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  static socklen_t size() { return sizeof(sockaddr_un); }

 private:
  sockaddr_un address_{.sun_family = AF_UNIX, .sun_path = {}};
};

}  // namespace hgt
