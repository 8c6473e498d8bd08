#pragma once

#include <csignal>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace hgt {

/// A debugger that holds a process and has been stopped itself, so that the process cannot end.
class StoppedTracer {
 public:
  explicit StoppedTracer(pid_t tracee) {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      if (ptrace(PTRACE_SEIZE, tracee, nullptr, nullptr) != 0) _exit(1);
      raise(SIGSTOP);
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(pid_, &status, WUNTRACED) == pid_);
    REQUIRE(WIFSTOPPED(status));
  }
  ~StoppedTracer() { end(); }
  StoppedTracer(const StoppedTracer&) = delete;
  StoppedTracer& operator=(const StoppedTracer&) = delete;

  pid_t pid() const { return pid_; }
  void end() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

/// While this lives, orphans of this process's children become its own.
struct Subreaping {
  Subreaping() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~Subreaping() { prctl(PR_SET_CHILD_SUBREAPER, 0); }
};

}  // namespace hgt
