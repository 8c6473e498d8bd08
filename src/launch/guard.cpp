#include "guard.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"

#include "children.h"
#include "process_title.h"
#include "program.h"

namespace hgt {
namespace {

// Descriptors in the guard; the worker keeps 0-3. What they are copied from lies above.
constexpr int kLifelineFd = 4;
constexpr int kStatusFd = 5;
constexpr int kFirstFreeFd = 16;

/// What a child needs, prepared before the fork: after it, nothing may allocate.
struct Prepared {
  const char* path;
  std::vector<char*> argv;
  std::vector<char*> env;
  char name[16];  // of the guard, in ps and pkill
  bool ignore_hangup;
  std::array<int, 6> fds;  // what becomes descriptor 0-5
  int group_fd;
  std::int64_t lease_ns;
  pid_t parent;  // to be killed when the lease is over, 0 = not to be
  ProcessTitle title;
};

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

// ---- in the children: async-signal-safe functions only ----

/// The status pipe carries the worker's pid, and -errno of what failed; its end means success.
[[noreturn]] void report_and_exit(int error_number) {
  const int status = -error_number;
  (void)!write(kStatusFd, &status, sizeof status);
  _exit(127);
}

[[noreturn]] void become_worker(const Prepared& prepared, pid_t guard) {
  if (setsid() < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) report_and_exit(errno);
  if (getppid() != guard) _exit(127);  // it died before it could be watched
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  if (prepared.ignore_hangup) ::signal(SIGHUP, SIG_IGN);  // nohup
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(prepared.path, prepared.argv.data(), prepared.env.data());
  report_and_exit(errno);
}

class Guard {
 public:
  Guard(pid_t worker, std::int64_t lease_ns, int parent)
      : worker_(worker), lease_ns_(lease_ns), parent_(parent) {}

  [[noreturn]] void watch(int child_events) {
    for (;;) {
      pollfd events[2] = {{kLifelineFd, POLLIN, 0}, {child_events, POLLIN, 0}};
      constexpr int kLeaseCheckMs = 1000;
      poll(events, 2, lease_ns_ > 0 ? kLeaseCheckMs : -1);
      if (events[0].revents) obey();
      if (lease_ns_ > 0 && now_ns() - heard_ns_ > lease_ns_) end_with_parent();
      if (events[1].revents) {
        signalfd_siginfo info;
        (void)!read(child_events, &info, sizeof info);
        while (reap(WNOHANG)) {
        }
        if (ended_) end_all();
      }
    }
  }

  /// Kills until nothing is left. The children of a killed process become children of the guard
  /// before the killed one can be reaped, so killing children until there are none kills all.
  [[noreturn]] void end_all() {
    kill_all();
    _exit(0);
  }

 private:
  void kill_all() {
    if (!ended_) kill(-worker_, SIGKILL);  // all at once, before one sees another die
    do for_each_child(children_, [](pid_t pid) { kill(pid, SIGKILL); });
    while (reap(0));
  }

  /// The parent is killed later than its children: then the coordinator, whose lease of it ends at
  /// about this time, gives it up as silent, and does not see its connection end for no reason.
  [[noreturn]] void end_with_parent() {
    constexpr unsigned kLaterSeconds = 5;
    is_lease_over_ = true;
    kill_all();
    if (parent_ >= 0) {
      sleep(kLaterSeconds);
      syscall(SYS_pidfd_send_signal, parent_, SIGKILL, nullptr, 0);
    }
    _exit(0);
  }

  void obey() {
    int signal = 0;
    const ssize_t bytes = recv(kLifelineFd, &signal, sizeof signal, MSG_DONTWAIT);
    if (bytes < 0 && errno == EAGAIN) return;
    if (bytes != sizeof signal || signal == SIGKILL) end_all();
    heard_ns_ = now_ns();
    if (kill(-worker_, signal) != 0) kill(worker_, signal);
  }

  /// Reaps one child that has ended and, if it is the worker, reports its end. False if there is no
  /// child (with WNOHANG: none that has ended).
  bool reap(int flags) {
    int status = 0;
    rusage usage{};
    const pid_t pid = wait4(-1, &status, flags, &usage);
    if (pid <= 0) return false;
    if (pid == worker_) {
      ended_ = true;
      const WorkerEnd end{status, usage.ru_maxrss, now_ns(), is_lease_over_};
      (void)!send(kLifelineFd, &end, sizeof end, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    return true;
  }

  const pid_t worker_;
  const std::int64_t lease_ns_;  // 0 = none
  const int parent_;             // a pidfd, -1 = it is not killed
  const int children_ = open_children();
  std::int64_t heard_ns_ = now_ns();
  bool ended_ = false;
  bool is_lease_over_ = false;
};

/// Moves the prepared descriptors to 0-5 and closes all others, also those of other workers.
void arrange_descriptors(const Prepared& prepared) {
  for (int fd = 0; fd <= kStatusFd; ++fd)
    if (dup2(prepared.fds[static_cast<std::size_t>(fd)], fd) < 0) _exit(127);
  fcntl(kLifelineFd, F_SETFD, FD_CLOEXEC);
  fcntl(kStatusFd, F_SETFD, FD_CLOEXEC);
  close_descriptors(kStatusFd + 1);
}

/// A pidfd of the parent, which is `pid` unless it has ended meanwhile; -1 before Linux 5.3.
int open_process(pid_t pid) {
  const auto out = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (getppid() == pid) return out;
  close(out);
  return -1;
}

[[noreturn]] void become_guard(const Prepared& prepared) {
  setsid();
  prepared.title.set(prepared.name);
  if (prepared.group_fd >= 0) (void)!write(prepared.group_fd, "0", 1);
  arrange_descriptors(prepared);
  prctl(PR_SET_PDEATHSIG, SIGCONT);  // stopped, it would not see the end of its lifeline
  signal(SIGCHLD, SIG_DFL);          // ignored, it would not arrive
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  const int child_events = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  if (child_events < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) report_and_exit(errno);
  const int parent = prepared.parent == 0 ? -1 : open_process(prepared.parent);
  const pid_t guard = getpid();
  const pid_t worker = fork();
  if (worker == 0) become_worker(prepared, guard);
  if (worker < 0) report_and_exit(errno);
  (void)!write(kStatusFd, &worker, sizeof worker);
  close(kStatusFd);
  close(kControlFd);
  dup2(0, 1);
  dup2(0, 2);
  Guard(worker, prepared.lease_ns, parent).watch(child_events);
}

// ---- in this process ----

[[noreturn]] void throw_no_resources(int rank, const char* what) {
  const bool lacks_descriptors = errno == EMFILE || errno == ENFILE;
  throw Error(
      ErrorKind::kDevice,
      fmt::format("cannot start rank {}: {}: {}", rank, what, std::strerror(errno)),
      lacks_descriptors
          ? "too many files are open; raise the limit with `ulimit -n`, or use fewer workers"
          : "raise the limits on processes and memory (`ulimit -u`, `ulimit -v`), or use "
            "fewer workers");
}

/// A descriptor high enough not to be in the way of those the children use.
OwnedFd lifted(int rank, int fd) {
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, kFirstFreeFd);
  if (high < 0 && errno == EINVAL) errno = EMFILE;  // the limit is below kFirstFreeFd
  if (high < 0) throw_no_resources(rank, "no descriptor");
  return OwnedFd(high);
}

struct Pair {
  OwnedFd ours;
  OwnedFd theirs;
};

Pair make_pair(int rank, bool is_pipe, int socket_type = 0) {
  int ends[2];
  const int made =
      is_pipe ? pipe2(ends, O_CLOEXEC) : socketpair(AF_UNIX, socket_type | SOCK_CLOEXEC, 0, ends);
  if (made != 0) throw_no_resources(rank, is_pipe ? "no pipe" : "no socket");
  Pair pair{OwnedFd(ends[0]), OwnedFd(ends[1])};
  pair.ours = lifted(rank, pair.ours.get());
  pair.theirs = lifted(rank, pair.theirs.get());
  fcntl(pair.ours.get(), F_SETFL, O_NONBLOCK);
  return pair;
}

/// Blocks all signals for as long as it lives, so that none hits a child that is not set up yet.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

/// The worker's pid, or throws what kept it from starting.
pid_t wait_for_start(int rank, const std::string& path, int status_fd) {
  pid_t worker = 0;
  int error_number = 0;
  for (;;) {
    int value = 0;
    const ssize_t bytes = read(status_fd, &value, sizeof value);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes != sizeof value) break;
    (value > 0 ? worker : error_number) = std::abs(value);
  }
  if (worker > 0 && error_number == 0) return worker;
  if (worker == 0 && error_number == 0)
    throw Error(ErrorKind::kDevice,
                fmt::format("cannot start rank {}: its guard has ended first", rank));
  errno = error_number;
  if (worker == 0) throw_no_resources(rank, "no process");
  throw Error(ErrorKind::kConfig,
              fmt::format("cannot execute {}: {}", path, std::strerror(error_number)),
              error_number == ENOEXEC ? first_line_hint(path) : "");
}

}  // namespace

GuardedWorker spawn_guarded(int rank, const std::string& path, const std::vector<std::string>& argv,
                            const std::vector<std::string>& env, int group_fd,
                            std::chrono::milliseconds lease, bool kills_parent) {
  Pair lifeline = make_pair(rank, false, SOCK_SEQPACKET);
  Pair control = make_pair(rank, false, SOCK_STREAM);
  Pair output = make_pair(rank, true);
  Pair errors = make_pair(rank, true);
  Pair status = make_pair(rank, true);
  fcntl(status.ours.get(), F_SETFL, 0);
  const OwnedFd raw_null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (raw_null.get() < 0) throw_no_resources(rank, "cannot open /dev/null");
  const OwnedFd null = lifted(rank, raw_null.get());

  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  Prepared prepared{.path = path.c_str(),
                    .argv = pointers(argv),
                    .env = pointers(env),
                    .name = {},
                    .ignore_hangup = hangup.sa_handler == SIG_IGN,
                    .fds = {null.get(), output.theirs.get(), errors.theirs.get(),
                            control.theirs.get(), lifeline.theirs.get(), status.theirs.get()},
                    .group_fd = group_fd,
                    .lease_ns = std::chrono::nanoseconds(lease).count(),
                    .parent = kills_parent ? getpid() : 0,
                    .title = {}};
  *fmt::format_to_n(prepared.name, sizeof prepared.name - 1, "guard-of-{}", rank).out = 0;

  GuardedWorker out;
  {
    const SignalsBlocked blocked;
    out.guard = fork();
    if (out.guard == 0) become_guard(prepared);
  }
  if (out.guard < 0) throw_no_resources(rank, "no process");
  status.theirs = OwnedFd();
  try {
    out.worker = wait_for_start(rank, path, status.ours.get());
  } catch (const Error&) {
    waitpid(out.guard, nullptr, 0);
    throw;
  }
  out.lifeline = std::move(lifeline.ours);
  out.control = std::move(control.ours);
  out.output = std::move(output.ours);
  out.errors = std::move(errors.ours);
  return out;
}

}  // namespace hgt
