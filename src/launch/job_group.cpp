#include "job_group.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hgtrain/base/file.h"

#include "children.h"
#include "process_title.h"

namespace hgt {
namespace {

/// This process's group of version 2, which lies in `unified` if version 1 is mounted too.
std::string own_group(const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;
    for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      const std::string group = root + mount + line.substr(3);
      if (access((group + "/cgroup.procs").c_str(), F_OK) == 0) return group;
    }
  }
  return "";
}

// ---- in the keeper: async-signal-safe functions only ----

/// False once there is nobody in the group.
bool kill_all_in(const char* procs) {
  const int fd = open(procs, O_RDONLY);
  if (fd < 0) return false;
  bool any = false;
  pid_t pid = 0;
  std::array<char, 4096> text;
  for (ssize_t bytes; (bytes = read(fd, text.data(), text.size())) > 0;)
    for (ssize_t i = 0; i < bytes; ++i) {
      if (text[static_cast<std::size_t>(i)] != '\n') {
        pid = pid * 10 + (text[static_cast<std::size_t>(i)] - '0');
        continue;
      }
      if (pid > 0) kill(pid, SIGKILL);
      any = true;
      pid = 0;
    }
  close(fd);
  return any;
}

struct Paths {
  const std::string group, procs, kill;
};

[[noreturn]] void keep(const Paths& paths, int lifeline) {
  char byte;
  while (read(lifeline, &byte, 1) > 0) {
  }
  const int all = open(paths.kill.c_str(), O_WRONLY);  // since Linux 5.14
  if (all >= 0) (void)!write(all, "1", 1);
  constexpr int kTries = 1000;  // ten seconds: what is left then is stuck in the kernel
  for (int i = 0; i < kTries; ++i, poll(nullptr, 0, 10)) {
    if (kill_all_in(paths.procs.c_str())) continue;
    // Who is just dying is in no list, but keeps the group busy.
    if (rmdir(paths.group.c_str()) == 0 || errno != EBUSY) break;
  }
  _exit(0);
}

}  // namespace

JobGroup::JobGroup(const std::string& root) {
  const std::string own = own_group(root);
  if (own.empty()) return;
  const std::string path = own + "/hgtrain-" + random_suffix();
  if (mkdir(path.c_str(), 0755) != 0) return;
  path_ = path;
  join_ = OwnedFd(open((path + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  start_keeper();
}

void JobGroup::start_keeper() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  const OwnedFd reader(ends[0]);
  lifeline_ = OwnedFd(ends[1]);
  const ProcessTitle title;
  const Paths paths{path_, path_ + "/cgroup.procs", path_ + "/cgroup.kill"};
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    if (fork() != 0) _exit(0);  // the keeper is an orphan, so that no killing of children finds it
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    title.set("job-keeper");
    dup2(reader.get(), 0);
    close_descriptors(1);
    keep(paths, 0);
  }
  if (child > 0) waitpid(child, nullptr, 0);
}

JobGroup::~JobGroup() {
  if (!path_.empty()) rmdir(path_.c_str());
}

}  // namespace hgt
