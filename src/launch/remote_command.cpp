#include "hgtrain/launch/remote_command.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <optional>
#include <poll.h>
#include <string_view>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/owned_fd.h"

#include "payload.h"
#include "program.h"
#include "ssh_failure.h"
#include "ssh_host.h"

namespace hgt {
namespace {

constexpr std::array kPassedOn{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
constexpr int kSshFailed = 255;  // the exit code of ssh if the connection fails

// ---- the end where the command is typed ----

int signals_fd = -1;  // on which a byte with its number passes a signal on

void pass_signal_on(int signal) {
  const int error_before = errno;
  const char byte = static_cast<char>(signal);
  (void)!::write(signals_fd, &byte, 1);
  errno = error_before;
}

void write_whole(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t bytes = ::write(fd, text.data(), text.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return;  // a stream that ends is noticed by who reads
    text.remove_prefix(static_cast<std::size_t>(bytes));
  }
}

void block_on(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
}

/// Shows what the command prints, until it has ended.
void show_output(OwnedFd out, OwnedFd errors) {
  std::array<pollfd, 2> streams{{{out.get(), POLLIN, 0}, {errors.get(), POLLIN, 0}}};
  std::array<char, 1 << 16> part;
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    if (::poll(streams.data(), streams.size(), -1) < 0) continue;
    for (pollfd& stream : streams) {
      if (stream.fd < 0 || stream.revents == 0) continue;
      const ssize_t bytes = ::read(stream.fd, part.data(), part.size());
      if (bytes < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (bytes <= 0)
        stream.fd = -1;
      else
        write_whole(&stream == streams.data() ? STDOUT_FILENO : STDERR_FILENO,
                    {part.data(), static_cast<std::size_t>(bytes)});
    }
  }
}

// ---- the end where it runs ----

std::optional<RemoteCommand> received;

/// Byte by byte: what follows the command is signals.
RemoteCommand read_command() {
  FrameReader reader;
  for (char byte = 0;;) {
    const ssize_t bytes = ::read(STDIN_FILENO, &byte, 1);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) throw Error(ErrorKind::kPeer, "the command did not arrive whole");
    reader.feed({&byte, 1});
    const std::optional<Frame> frame = reader.next();
    if (!frame) continue;
    if (frame->kind != RemoteCommand::kKind) refuse_payload();
    return decode_payload<RemoteCommand>(frame->payload);
  }
}

[[noreturn]] void wait_for(pid_t child, int child_ended) {
  std::array<pollfd, 2> events{{{child_ended, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}}};
  for (int status = 0;;) {
    if (::poll(events.data(), events.size(), -1) < 0) continue;
    if (events[0].revents != 0) {
      signalfd_siginfo unused;
      (void)!::read(child_ended, &unused, sizeof unused);  // the child may only have been stopped
      if (::waitpid(child, &status, WNOHANG) == child)
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
    if (events[1].revents == 0) continue;
    char byte = 0;
    const ssize_t bytes = ::read(STDIN_FILENO, &byte, 1);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) events[1].fd = -1;
    const int signal = bytes > 0 ? byte : SIGTERM;
    if (std::ranges::find(kPassedOn, signal) != kPassedOn.end()) ::kill(child, signal);
  }
}

/// Returns in the child.
void fork_command() {
  sigset_t ended, before;
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ended, &before);
  const OwnedFd child_ended(::signalfd(-1, &ended, SFD_CLOEXEC));
  const pid_t child = child_ended.get() < 0 ? -1 : ::fork();
  if (child < 0)
    throw Error(ErrorKind::kDevice,
                fmt::format("no process can be started on {} for the command: {}", host_name(),
                            std::strerror(errno)));
  if (child > 0) wait_for(child, child_ended.get());
  sigprocmask(SIG_SETMASK, &before, nullptr);
  const OwnedFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ::dup2(null.get(), STDIN_FILENO);
}

}  // namespace

int run_remotely(RemoteCommand command, const JobHost& host,
                 const std::function<void(const std::string& text)>& notice) {
  command.host = host.name;
  const std::string frame = encode_frame(RemoteCommand::kKind, encode_payload(command));
  asio::io_context io;
  const ProgramFiles program(own_program());
  OwnedFd in, out;
  std::string why;
  SshHost ssh(io, host, program,
              {[&](std::size_t bytes) { notice(text_of_sending(host, bytes)); },
               [&](OwnedFd agent_out, OwnedFd agent_in) {
                 out = std::move(agent_out);
                 in = std::move(agent_in);
                 io.stop();
               },
               [&](const std::string& reason) {
                 why = reason;
                 io.stop();
               }},
              SshHost::Purpose::kCommand, kLongConnectLimit);
  std::signal(SIGPIPE, SIG_IGN);  // a host that leaves while it is sent something is an error
  io.run();
  if (!why.empty())
    throw Error(ErrorKind::kDevice, fmt::format("host {} cannot be used: {}", host.name, why),
                hint_for_ssh(host, why));
  std::fflush(stdout);
  std::cerr.flush();
  block_on(in.get());
  write_whole(in.get(), frame);
  std::signal(SIGPIPE, SIG_DFL);  // as for a command that runs here
  signals_fd = in.get();
  for (const int signal : kPassedOn)
    if (std::signal(signal, pass_signal_on) == SIG_IGN) std::signal(signal, SIG_IGN);
  show_output(std::move(out), ssh.take_errors());
  const int exit_code = ssh.wait();
  if (exit_code == kSshFailed)
    throw Error(ErrorKind::kPeer,
                fmt::format("the connection to host {} has ended before the command", host.name));
  return exit_code;
}

bool is_remote(const std::vector<std::string>& words) {
  return words == std::vector<std::string>{"agent", "--command"};
}

const RemoteCommand& receive_command() {
  received = read_command();
  fork_command();
  if (::chdir(received->folder.c_str()) != 0)
    throw Error(ErrorKind::kConfig,
                fmt::format("host {} has no folder {}: {}", received->host, received->folder,
                            std::strerror(errno)),
                "type the command in a folder that this host has at the same path");
  if (!received->program.empty() && ::access(received->program.c_str(), X_OK) != 0)
    throw missing_environment(received->host, received->program);
  for (const auto& [name, value] : received->environment) ::setenv(name.c_str(), value.c_str(), 1);
  return *received;
}

const RemoteCommand* received_command() {
  return received ? &*received : nullptr;
}

}  // namespace hgt
