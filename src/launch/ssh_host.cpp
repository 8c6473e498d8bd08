#include "ssh_host.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <asio/buffer.hpp>
#include <asio/write.hpp>
#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/log.h"
#include "hgtrain/wire/job_key.h"

#include "environment.h"
#include "ssh_failure.h"

namespace hgt {
namespace {

constexpr std::chrono::seconds kAliveInterval{5};  // ssh ends if so many pass without an answer
constexpr int kAliveCount = 3;
constexpr int kConnectionFailed = 255;           // ssh's exit code then
constexpr std::size_t kMaxNoise = 64 << 10;      // of a shell's start-up files, on stdout
constexpr std::size_t kMaxErrorText = 4 << 10;   // of stderr that is kept
constexpr std::chrono::seconds kStartLimit{30};  // with the login
constexpr std::chrono::minutes kSendLimit{10};   // of the program
constexpr std::chrono::seconds kFirstPrompt{2}, kNextPrompt{1};

[[noreturn]] void throw_cannot_start(const std::string& name, int error_number) {
  throw Error(ErrorKind::kDevice,
              fmt::format("cannot start ssh for host {}: {}", name, std::strerror(error_number)),
              error_number == ENOENT ? "install an ssh client" : "");
}

struct Pipe {
  explicit Pipe(const std::string& name) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw_cannot_start(name, errno);
    read_end = OwnedFd(ends[0]);
    write_end = OwnedFd(ends[1]);
  }
  OwnedFd read_end, write_end;
};

/// `word` quoted as one word for a POSIX shell and for csh.
std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out + "'";
}

}  // namespace

std::vector<std::string> ssh_command(const JobHost& host, const ProgramFiles& files,
                                     const std::string& nonce, SshHost::Purpose purpose,
                                     std::chrono::seconds connect_limit) {
  const bool is_agent = purpose == SshHost::Purpose::kAgent;
  std::vector<std::string> out = {"ssh", "-T", "-x"};
  if (is_agent) out.emplace_back("-a");
  for (const auto& option : {fmt::format("ConnectTimeout={}", connect_limit.count()),
                             fmt::format("ServerAliveInterval={}", kAliveInterval.count()),
                             fmt::format("ServerAliveCountMax={}", kAliveCount)})
    out.insert(out.end(), {"-o", option});
  for (const char* option :
       {"IgnoreUnknown=StdinNull,ForkAfterAuthentication,SessionType", "BatchMode=yes",
        "ControlMaster=no", "ControlPersist=no", "ClearAllForwardings=yes", "PermitLocalCommand=no",
        "RemoteCommand=none", "StdinNull=no", "ForkAfterAuthentication=no", "SessionType=default",
        "LogLevel=ERROR"}) {
    out.emplace_back("-o");
    out.emplace_back(option);
  }
  for (const std::string& word : login_flags(host)) out.push_back(word);
  out.emplace_back("--");
  out.push_back(host.name);
  out.push_back("exec /bin/sh -c " +
                quoted(start_script(files, nonce, is_agent ? "agent" : "agent --command")) + " " +
                quoted(files.program()));
  return out;
}

std::string text_of_sending(const JobHost& host, std::size_t bytes) {
  return fmt::format("sending this hgtrain to host {}, which has no such build: {} MiB", host.name,
                     bytes >> 20);
}

SshHost::SshHost(asio::io_context& io, const JobHost& host, const ProgramFiles& program,
                 Events events, Purpose purpose, std::chrono::seconds connect_limit)
    : program_(program),
      nonce_(JobKey::random().hex()),
      events_(std::move(events)),
      input_(io),
      output_(io),
      errors_(io),
      deadline_(io),
      prompt_timer_(io) {
  Pipe in(host.name), out(host.name), errors(host.name);
  std::vector<std::string> words = ssh_command(host, program_, nonce_, purpose, connect_limit);
  std::vector<std::string> environment =
      full_environment({}, {{"SSH_ASKPASS_REQUIRE", "never"}});  // no window asks for a password
  const auto pointers_to = [](std::vector<std::string>& texts) {
    std::vector<char*> out;
    for (std::string& text : texts) out.push_back(text.data());
    out.push_back(nullptr);
    return out;
  };
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in.read_end.get(), 0);
  posix_spawn_file_actions_adddup2(&files, out.write_end.get(), 1);
  posix_spawn_file_actions_adddup2(&files, errors.write_end.get(), 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF);
  const int result = posix_spawnp(&pid_, "ssh", &files, &attributes, pointers_to(words).data(),
                                  pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (result != 0) {
    pid_ = -1;
    throw_cannot_start(host.name, result);
  }
  log_info("host {}: ssh has pid {}", host.name, pid_);
  input_.assign(in.write_end.release());
  output_.assign(out.read_end.release());
  errors_.assign(errors.read_end.release());
  output_.native_non_blocking(true);
  errors_.native_non_blocking(true);
  deadline_.expires_after(kStartLimit);
  deadline_.async_wait([this](const std::error_code& error) {
    if (!error) fail(fmt::format("{} {} s", kNoAnswer, kStartLimit.count()));
  });
  prompt(kFirstPrompt);
  watch_output();
  watch_errors();
}

/// A start-up file of the login shell may wait for a line.
void SshHost::prompt(std::chrono::seconds after) {
  prompt_timer_.expires_after(after);
  prompt_timer_.async_wait([this](const std::error_code& error) {
    if (error || is_open_ || is_sending_ || !input_.is_open()) return;
    write_line("\n");
    prompt(kNextPrompt);
  });
}

/// If nobody reads it any more, ssh's stdout ends, too.
void SshHost::write_line(std::string_view line) {
  (void)!::write(input_.native_handle(), line.data(), line.size());
}

void SshHost::kill() const {
  if (pid_ > 0) ::kill(-pid_, SIGKILL);  // not reaped before the end, so the number is its own
}

void SshHost::cancel_timers() {
  deadline_.cancel();
  prompt_timer_.cancel();
}

void SshHost::close() {
  cancel_timers();
  for (Descriptor* stream : {&input_, &output_, &errors_}) stream->close();
}

int SshHost::wait() {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  const int status = reap();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

SshHost::~SshHost() {
  if (pid_ >= 0) reap();
}

/// ssh does not wait for its ProxyCommand. If this process is a subreaper, that becomes its child,
/// which ends soon after it was killed.
int SshHost::reap() {
  constexpr int kTries = 100;
  constexpr useconds_t kPauseUs = 1000;
  kill();
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  for (int i = 0; i < kTries && waitpid(-pid_, nullptr, WNOHANG) >= 0; ++i) usleep(kPauseUs);
  pid_ = -1;
  return status;
}

void SshHost::watch_output() {
  output_.async_wait(Descriptor::wait_read, [this](const std::error_code& error) {
    if (!error && output_.is_open()) read_output();
  });
}

/// Byte by byte: what follows the nonce is the agent's.
void SshHost::read_output() {
  for (;;) {
    char c = 0;
    const ssize_t bytes = ::read(output_.native_handle(), &c, 1);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && errno == EAGAIN) return watch_output();
    if (bytes <= 0) return fail(why_ended());
    if (++discarded_ > kMaxNoise) return fail(kTooMuchNoise);
    if (c != '\n') {
      line_ += c;
      continue;
    }
    const std::string line = std::exchange(line_, "");
    if (line == send_line(nonce_)) send_program();
    if (!output_.is_open()) return;
    if (line == nonce_) {
      is_open_ = true;
      cancel_timers();
      write_line(kStartLine);
      return events_.ready(OwnedFd(output_.release()), OwnedFd(input_.release()));
    }
    if (!line.empty()) last_noise_ = line;
  }
}

void SshHost::send_program() try {
  const auto payload = program_.payload();
  is_sending_ = true;
  events_.sending(payload->size());
  deadline_.expires_after(kSendLimit);
  deadline_.async_wait([this](const std::error_code& error) {
    if (!error) fail(fmt::format("the program did not arrive within {} min", kSendLimit.count()));
  });
  // If the host takes no more, its stdout ends too.
  asio::async_write(input_, asio::buffer(*payload),
                    [payload](const std::error_code&, std::size_t) {});
} catch (const Error& e) {  // it was removed since this process has started
  fail(e.message());
}

void SshHost::watch_errors() {
  errors_.async_wait(Descriptor::wait_read, [this](const std::error_code& error) {
    if (!error && errors_.is_open() && read_errors()) watch_errors();
  });
}

bool SshHost::read_errors() {
  std::array<char, 4096> buffer;
  while (errors_.is_open()) {
    const ssize_t bytes = ::read(errors_.native_handle(), buffer.data(), buffer.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && errno == EAGAIN) break;
    if (bytes <= 0) {
      errors_.close();
      break;
    }
    error_text_.append(buffer.data(), static_cast<std::size_t>(bytes));
    if (error_text_.size() > kMaxErrorText)
      error_text_.erase(0, error_text_.size() - kMaxErrorText);
  }
  return errors_.is_open();
}

std::string SshHost::last_words() {
  read_errors();
  return why_ssh_ended(error_text_);
}

/// How ssh has ended. It ends after its streams, so this waits for it, but not for long; si_pid is
/// 0 if it has not ended.
siginfo_t SshHost::end() const {
  constexpr int kTries = 20;
  siginfo_t info{};
  for (int i = 0; i < kTries; ++i) {
    info = {};
    const auto pid = static_cast<id_t>(pid_);
    if (waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0) break;
    usleep(5'000);
  }
  return info;
}

std::string SshHost::how_ended() const {
  const siginfo_t info = end();
  if (info.si_pid == 0) return "";
  if (info.si_code != CLD_EXITED)
    return fmt::format("ssh on this machine was killed by SIG{}", sigabbrev_np(info.si_status));
  const bool is_of_agent = info.si_status != 0 && info.si_status != kConnectionFailed;
  return is_of_agent ? fmt::format("its agent exited with code {}", info.si_status) : "";
}

/// Before the agent has started. A login shell such as nologin explains itself on stdout.
std::string SshHost::why_ended() {
  if (const std::string said = last_words(); !said.empty()) return said;
  if (is_sending_) return "its shell ended while the program was sent there";
  const std::string& noise = line_.empty() ? last_noise_ : line_;
  const auto waited = std::chrono::steady_clock::now() - begin_;
  if (waited >= kAliveInterval * kAliveCount && end().si_status == kConnectionFailed)
    return kSilence;
  if (noise.empty()) return kNoWord;
  return "its login shell starts no program, and says: " + noise;
}

void SshHost::fail(const std::string& why) {
  if (std::exchange(is_open_, true)) return;
  cancel_timers();
  output_.close();
  events_.failed(why);
}

}  // namespace hgt
