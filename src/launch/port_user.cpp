#include "port_user.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include <fmt/format.h>

namespace hgt {
namespace {

namespace fs = std::filesystem;

struct Listener {
  std::string user, inode;
};

/// The listener on `port` in a table like /proc/net/tcp; its inode is "" if there is none.
Listener listener_in(const char* table, int port) {
  std::ifstream file(table);
  const std::string ending = fmt::format(":{:04X}", port);
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >>
        timeout >> inode;
    if (local.ends_with(ending) && state == "0A") return {user, inode};
  }
  return {};
}

bool has_open(const fs::path& process, const std::string& what) {
  std::error_code error;
  for (fs::directory_iterator it(process / "fd", error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (fs::read_symlink(*it, ignored) == what) return true;
  }
  return false;
}

}  // namespace

std::string port_user(int port) {
  Listener listener = listener_in("/proc/net/tcp", port);
  if (listener.inode.empty()) listener = listener_in("/proc/net/tcp6", port);
  if (listener.inode.empty()) return "";
  const std::string socket = fmt::format("socket:[{}]", listener.inode);
  std::error_code error;
  for (fs::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
    const std::string pid = it->path().filename();
    if (!std::all_of(pid.begin(), pid.end(), [](char c) { return '0' <= c && c <= '9'; }) ||
        !has_open(it->path(), socket))
      continue;
    std::string name;
    std::getline(std::ifstream(it->path() / "comm") >> std::ws, name);
    return fmt::format("{} (pid {})", name, pid);
  }
  return "a process of user " + listener.user;
}

}  // namespace hgt
