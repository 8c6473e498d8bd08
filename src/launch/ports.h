#pragma once

#include <string>

#include "hgtrain/base/owned_fd.h"

namespace hgt {

/// Reserves MASTER_PORT for a program that will listen on it. The port is bound with SO_REUSEADDR
/// but not listening: the kernel then does not give it to programs that ask for any free port, and
/// the job's own rank 0 can bind it (PyTorch's store sets SO_REUSEADDR). Another program that asks
/// for this very port with SO_REUSEADDR can bind it as well, because the kernel cannot reserve a
/// port for a process's children.
class MasterPort {
 public:
  /// 0 = any free port. Error(kDevice) names the process that listens on `wanted`.
  explicit MasterPort(int wanted);
  int number() const { return number_; }

 private:
  OwnedFd fd_;
  int number_ = 0;
};

/// The process that listens on a TCP port of this machine: "python3 (pid 4711)", or "a process of
/// user 1001" if its name cannot be read; "" if there is none.
std::string port_user(int port);

/// Whether `host`, a name or an address, is an address of this machine. False if the name does not
/// resolve.
bool is_address_here(const std::string& host);
/// Whether it is an address of another machine.
bool is_address_elsewhere(const std::string& host);

}  // namespace hgt
