#include "hgtrain/launch/agent_process.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/log.h"

#include "agent.h"
#include "children.h"
#include "job_group.h"
#include "job_signals.h"

namespace hgt {
namespace {

constexpr std::chrono::seconds kAgentDriverLimit{90};  // the launcher of a job gives up before

OwnedFd moved_up(int fd) {
  OwnedFd out(fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (out.get() < 0)
    throw Error(ErrorKind::kDevice,
                fmt::format("descriptor {} cannot be used: {}", fd, std::strerror(errno)));
  return out;
}

}  // namespace

int run_agent() {
  // What a library prints to stdout must not get into the stream.
  OwnedFd in = moved_up(STDIN_FILENO), out = moved_up(STDOUT_FILENO);
  const OwnedFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  dup2(null.get(), STDIN_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  std::signal(SIGPIPE, SIG_IGN);
  const JobGroup group;  // before this process is a subreaper
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  asio::io_context io;
  Agent agent({io, group.join_fd(), [before = children()] { return before; }, Lease::kDefault,
               [&](const std::string&) { io.stop(); }, kAgentDriverLimit, /*is_own_process=*/true},
              std::move(in), std::move(out));
  JobSignals signals(io, [&](int signal) { agent.report_signal(signal); });
  signals.start();
  agent.look_at_devices();
  io.run();
  return 0;
}

}  // namespace hgt
