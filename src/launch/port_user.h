#pragma once

#include <string>

namespace hgt {

/// Who listens on a TCP port of this machine: "python3 (pid 4711)", "a process of user 1001" if it
/// cannot be looked at, "" if nobody does.
std::string port_user(int port);

}  // namespace hgt
