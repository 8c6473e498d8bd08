#pragma once

#include <charconv>
#include <fcntl.h>
#include <set>
#include <sys/types.h>
#include <unistd.h>

namespace hgt {

/// The list of the children of this process's first thread, to which orphans are reparented; -1 if
/// it cannot be opened. Async-signal-safe.
inline int open_children() {
  char path[48] = "/proc/self/task/";
  char* end = std::to_chars(path + 16, path + 32, getpid()).ptr;
  for (const char* c = "/children"; *c; ++c) *end++ = *c;
  *end = 0;
  return open(path, O_RDONLY | O_CLOEXEC);
}

/// Calls `visit(pid)` for each child in open_children(). Async-signal-safe: also for a child
/// between fork and exec. If a child ends during the call, it may hide another one: repeat after
/// reaping it.
template <class Visit>
void for_each_child(int fd, Visit visit) {
  lseek(fd, 0, SEEK_SET);
  char buffer[4096];
  pid_t pid = 0;
  for (ssize_t bytes; (bytes = read(fd, buffer, sizeof buffer)) > 0;)
    for (ssize_t i = 0; i < bytes; ++i) {
      if (buffer[i] >= '0' && buffer[i] <= '9') {
        pid = pid * 10 + (buffer[i] - '0');
      } else if (pid > 0) {
        visit(pid);
        pid = 0;
      }
    }
}

/// Closes all descriptors from `first` on. Async-signal-safe.
inline void close_descriptors(int first) {
  constexpr int kMany = 65536;
  if (close_range(static_cast<unsigned>(first), ~0u, 0) == 0) return;
  for (int fd = first; fd < kMany; ++fd) close(fd);  // a kernel before 5.9
}

/// The children for_each_child() visits. After the first call, it needs no more descriptors.
std::set<pid_t> children();

/// Kills and reaps all children but `keep`, and what they leave behind, until none is left. A
/// process that a debugger or the kernel holds cannot end: if none ends for `patience`, returns
/// those that are left.
std::set<pid_t> kill_other_children(
    const std::set<pid_t>& keep,
    std::chrono::milliseconds patience = std::chrono::milliseconds(100));

}  // namespace hgt
