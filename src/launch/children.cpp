#include "children.h"

#include <csignal>
#include <sys/wait.h>
#include <vector>

namespace hgt {

std::set<pid_t> children() {
  std::set<pid_t> out;
  for_each_child([&](pid_t pid) { out.insert(pid); });
  return out;
}

void kill_other_children(const std::set<pid_t>& keep) {
  for (;;) {
    std::vector<pid_t> others;
    for (const pid_t pid : children())
      if (!keep.count(pid)) others.push_back(pid);
    if (others.empty()) return;
    for (const pid_t pid : others) kill(pid, SIGKILL);
    for (const pid_t pid : others) waitpid(pid, nullptr, 0);
  }
}

}  // namespace hgt
