#pragma once

#include <string>

#include "owned_fd.h"

namespace hgt {

/// MASTER_PORT, for a program that will listen on it: bound but not listening, with SO_REUSEADDR,
/// so that the kernel gives nobody this port who asks for any free one, and the job's own rank 0
/// can bind it (PyTorch's store sets SO_REUSEADDR). Somebody else who asks for this very number
/// with SO_REUSEADDR can bind it as well: the kernel knows no way to keep a port for one's
/// children.
class MasterPort {
 public:
  /// 0 = any free one. Error(kDevice) names who listens on `wanted`.
  explicit MasterPort(int wanted);
  int number() const { return number_; }

 private:
  OwnedFd fd_;
  int number_ = 0;
};

/// Who listens on a TCP port of this machine: "python3 (pid 4711)", "a process of user 1001" if it
/// cannot be looked at, "" if nobody does.
std::string port_user(int port);

}  // namespace hgt
