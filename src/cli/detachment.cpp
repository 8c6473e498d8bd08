#include "detachment.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/launch/remote_command.h"

namespace hgt {
namespace {

constexpr int kLookMs = 50;

pid_t child = 0;

/// The child is in another session, where Ctrl-C does not reach it.
void pass_on(int signal) {
  ::kill(child, signal);
}

/// The output of the child until it has started. It goes to a file in memory, because the job's
/// console would stop the job if the reader of a terminal or a pipe left.
struct Output {
  int fd;    // of this process
  int file;  // in memory
  off_t shown = 0;

  void show() {
    std::array<char, 4096> part;
    for (ssize_t bytes; (bytes = ::pread(file, part.data(), part.size(), shown)) > 0;) {
      shown += bytes;
      (void)!::write(fd, part.data(), static_cast<std::size_t>(bytes));
    }
  }
};

[[noreturn]] void wait_for_child(int started_fd, std::array<Output, 2> outputs) {
  struct sigaction action {};
  action.sa_handler = pass_on;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
    sigaction(signal, &action, nullptr);
  pollfd started{started_fd, POLLIN, 0};
  do
    for (Output& output : outputs) output.show();
  while (::poll(&started, 1, kLookMs) <= 0);
  char byte = 0;
  const bool has_started = ::read(started_fd, &byte, 1) == 1;
  int status = 0;
  if (!has_started)
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  for (Output& output : outputs) output.show();
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

void redirect(int fd, const char* file, int flags) {
  int to = ::open(file, flags | O_CLOEXEC, 0666);
  if (to < 0) to = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (to < 0) return;
  ::dup2(to, fd);
  ::close(to);
}

}  // namespace

void check_detach_flag(bool detach, bool dry_run, bool is_met_by_nodes) {
  if (detach && dry_run)
    throw Error(ErrorKind::kConfig, "--detach cannot be combined with --dry_run",
                "a dry run ends at once: leave out --detach");
  if (detach && is_met_by_nodes)
    throw Error(
        ErrorKind::kConfig,
        "--detach cannot be used on one of several nodes that are started one by one",
        "leave it out: a scheduler keeps the job without a shell; without one, type `setsid "
        "nohup hgtrain ... > FILE 2>&1 &` on each node");
}

Detachment::Detachment(bool wanted) {
  if (!wanted) return;
  int ends[2];
  std::array<Output, 2> outputs{{{STDOUT_FILENO, ::memfd_create("stdout", MFD_CLOEXEC)},
                                 {STDERR_FILENO, ::memfd_create("stderr", MFD_CLOEXEC)}}};
  if (outputs[0].file < 0 || outputs[1].file < 0 || ::pipe2(ends, O_CLOEXEC) != 0 ||
      (child = ::fork()) < 0)
    throw Error(ErrorKind::kDevice, fmt::format("--detach: {}", std::strerror(errno)));
  if (child > 0) {
    ::close(ends[1]);
    wait_for_child(ends[0], outputs);
  }
  ::close(ends[0]);
  ::setsid();
  for (const Output& output : outputs) {
    ::dup2(output.file, output.fd);
    ::close(output.file);
  }
  started_fd_ = ends[1];
}

Detachment::~Detachment() {
  if (started_fd_ >= 0) ::close(started_fd_);
}

void Detachment::start(const std::string& folder, const std::string& file) {
  if (!is_wanted() || std::exchange(is_decided_, true)) return;
  const RemoteCommand* const received = received_command();
  tell(
      "detached: the run continues {0}\n"
      "  hgtrain status {1}, attach {1}, logs -f {1} and stop {1} reach it{2}; it also prints into "
      "{3}{4}\n",
      received ? "on " + received->host : "without this shell", shell_word(folder),
      received ? fmt::format(", from here and from there in {}", received->folder) : "", file,
      received ? " there" : "");
  std::fflush(stdout);
  redirect(STDIN_FILENO, "/dev/null", O_RDONLY);
  redirect(STDOUT_FILENO, file.c_str(), O_WRONLY | O_CREAT | O_APPEND);
  redirect(STDERR_FILENO, file.c_str(), O_WRONLY | O_CREAT | O_APPEND);
  const char byte = 1;
  (void)!::write(started_fd_, &byte, 1);
}

}  // namespace hgt
