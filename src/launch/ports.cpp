#include "ports.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <optional>
#include <sstream>
#include <sys/socket.h>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

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
  if (fd_.get() < 0)
    throw Error(ErrorKind::kDevice,
                fmt::format("no socket for MASTER_PORT: {}", std::strerror(errno)),
                errno == EMFILE ? "raise the limit with `ulimit -n`" : "");
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

namespace {

/// nullopt if `host` cannot be resolved.
std::optional<bool> is_here(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), "0", &wanted, &list) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    const OwnedFd fd(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (bind(fd.get(), at->ai_addr, at->ai_addrlen) == 0) return true;
  }
  return false;
}

}  // namespace

bool is_address_here(const std::string& host) {
  return is_here(host) == true;
}

bool is_address_elsewhere(const std::string& host) {
  return is_here(host) == false;
}

}  // namespace hgt
