#include "children.h"

#include <algorithm>
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace hgt {

std::set<pid_t> children() {
  static pid_t owner = 0;  // the process may have forked since
  static int fd = -1;
  if (std::exchange(owner, getpid()) != getpid() || fd < 0) fd = open_children();
  std::set<pid_t> out;
  for_each_child(fd, [&](pid_t pid) { out.insert(pid); });
  return out;
}

std::set<pid_t> kill_other_children(const std::set<pid_t>& keep,
                                    std::chrono::milliseconds patience) {
  constexpr useconds_t kPauseUs = 1000;
  for (int tries = 0;;) {
    std::set<pid_t> others = children();
    std::erase_if(others, [&](pid_t pid) { return keep.contains(pid); });
    for (const pid_t pid : others) kill(pid, SIGKILL);
    const auto reaped =
        std::ranges::count_if(others, [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) > 0; });
    if (others.empty() || tries == patience.count()) return others;
    tries = reaped > 0 ? 0 : tries + 1;
    if (tries > 0) usleep(kPauseUs);
  }
}

}  // namespace hgt
