#include "console_queue.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/file.h"

namespace hgt {
namespace {

constexpr std::size_t kFullBytes = 1 << 20;
// What poll() promises room for in a pipe: more could block, if that could not be opened again.
constexpr std::size_t kMaxWriteBytes = 4096;

bool can_take(int fd) {
  pollfd event{fd, POLLOUT, 0};
  return poll(&event, 1, 0) > 0;
}

const char* name_of(int fd) {
  return fd == STDOUT_FILENO ? "stdout" : "stderr";
}

/// A file without a name is in memory.
bool is_on_disk(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink > 0;
}

OwnedFd reopen(int fd, mode_t mode) {
  if (!S_ISFIFO(mode) && isatty(fd) == 0) return OwnedFd();
  return OwnedFd(open(fmt::format("/proc/self/fd/{}", fd).c_str(),
                      O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

}  // namespace

ConsoleQueue::Output::Output(asio::io_context& io, int descriptor) : fd(descriptor), readiness(io) {
  struct stat status {};
  if (fstat(fd, &status) != 0) {
    gone = has_reported = true;  // closed from the start: nobody wants to read it
    return;
  }
  reopened = reopen(fd, status.st_mode);
  OwnedFd watch(epoll_create1(EPOLL_CLOEXEC));
  epoll_event writable{.events = EPOLLOUT, .data = {}};
  if (epoll_ctl(watch.get(), EPOLL_CTL_ADD, target(), &writable) == 0)
    readiness.assign(watch.release());
}

ConsoleQueue::Cerr::int_type ConsoleQueue::Cerr::overflow(int_type character) {
  const char text = traits_type::to_char_type(character);
  xsputn(&text, 1);
  return traits_type::not_eof(character);
}

std::streamsize ConsoleQueue::Cerr::xsputn(const char* text, std::streamsize bytes) {
  queue_.say({text, static_cast<std::size_t>(bytes)});
  return bytes;
}

ConsoleQueue::ConsoleQueue(asio::io_context& io, Events events)
    : events_(std::move(events)),
      outputs_{Output(io, STDOUT_FILENO), Output(io, STDERR_FILENO)},
      thread_(io, [] {}) {
  look_again();
}

ConsoleQueue::~ConsoleQueue() {
  if (before_) std::cerr.rdbuf(before_);
}

void ConsoleQueue::look_again() {
  for (Output& output : outputs_) output.is_on_disk = is_on_disk(output.fd);
  const Output& errors = outputs_[OutputSink::kErr];
  if (!before_ && (errors.is_on_disk || errors.readiness.is_open()))
    before_ = std::cerr.rdbuf(&cerr_);
}

void ConsoleQueue::write(Stream stream, std::string_view text) {
  Output& output = outputs_[stream];
  if (output.gone) return report_gone(output);
  output.has_output = true;
  add(output, text);
}

void ConsoleQueue::say(std::string_view text) {
  Output& output = outputs_[OutputSink::kErr];
  if (output.gone || text.empty()) return;
  // A line comes in pieces; a progress line that is drawn again is one, too.
  if (std::exchange(at_line_start_, text.ends_with('\n')) || text.starts_with('\r'))
    is_leaving_out_ = !keeps_all_ && output.waiting_bytes() > (is_leaving_out_ ? 0 : kMostUnread);
  if (is_leaving_out_) {
    missing_lines_ += std::ranges::count(text, '\n');
  } else {
    say_what_is_missing();
    add(output, text);
  }
}

void ConsoleQueue::say_what_is_missing() {
  if (const std::int64_t lines = std::exchange(missing_lines_, 0); lines > 0)
    add(outputs_[OutputSink::kErr],
        fmt::format("hgtrain: {} lines are missing here, because nobody read them in time\n",
                    lines));
}

void ConsoleQueue::keep_last_lines() {
  keeps_all_ = true;
  say_what_is_missing();
}

void ConsoleQueue::give_up() {
  const OwnedFd nowhere(open("/dev/null", O_WRONLY | O_CLOEXEC));
  for (Output& output : outputs_) {
    if (output.waiting_bytes() == 0 || output.in_thread_bytes > 0) continue;
    dup2(nowhere.get(), output.fd);
    output.queue.clear();
    output.gone = output.has_reported = true;
  }
}

bool ConsoleQueue::is_full() const {
  return std::any_of(outputs_.begin(), outputs_.end(),
                     [](const Output& o) { return o.waiting_bytes() > kFullBytes; });
}

std::size_t ConsoleQueue::waiting_bytes() const {
  return outputs_[0].waiting_bytes() + outputs_[1].waiting_bytes();
}

std::string ConsoleQueue::what_was_dropped() const {
  std::string out;
  for (const Output& output : outputs_)
    if (output.dropped_bytes > 0)
      out += fmt::format("{}{} bytes of {} were dropped", out.empty() ? "" : ", ",
                         output.dropped_bytes, name_of(output.fd));
  return out;
}

void ConsoleQueue::add(Output& output, std::string_view text) {
  if (output.is_on_disk && output.queue.empty()) return add_to_thread(output, std::string(text));
  output.queue.append(text);
  if (!output.waiting) pump(output);
}

void ConsoleQueue::drop(Output& output, std::size_t bytes, int error_number) {
  const bool is_first = output.dropped_bytes == 0;
  output.gone = error_number == EPIPE;
  if (!output.gone) output.dropped_bytes += static_cast<std::int64_t>(bytes);
  if (output.gone && std::exchange(output.has_output, false)) return report_gone(output);
  if (!output.gone && is_first)
    events_.failed(
        fmt::format("{} cannot be written: {}; the job continues, but what it prints is dropped",
                    name_of(output.fd), std::strerror(error_number)));
}

void ConsoleQueue::report_gone(Output& output) {
  if (!std::exchange(output.has_reported, true)) events_.gone();
}

void ConsoleQueue::add_to_thread(Output& output, std::string text) {
  output.in_thread_bytes += text.size();
  thread_.add(text.size(), [this, &output, text = std::move(text)] {
    const auto [done, error] = write_bytes(output.fd, text);
    thread_.post([this, &output, bytes = text.size(), done, error] {
      output.in_thread_bytes -= bytes;
      if (error != 0 && !output.gone) drop(output, bytes - done, error);
    });
  });
}

void ConsoleQueue::pump(Output& output) {
  std::size_t done = 0;
  while (done < output.queue.size() && can_take(output.target())) {
    const std::size_t bytes = std::min(kMaxWriteBytes, output.queue.size() - done);
    const ssize_t written = ::write(output.target(), output.queue.data() + done, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) break;  // another program has filled it
    if (written < 0) {
      const int error = errno;
      return drop(output, std::exchange(output.queue, {}).size() - done, error);
    }
    done += static_cast<std::size_t>(written);
  }
  output.queue.erase(0, done);
  output.has_output = output.has_output && !output.queue.empty();
  if (output.queue.empty()) return;
  output.waiting = true;
  output.readiness.async_wait(asio::posix::stream_descriptor::wait_read,
                              [this, &output](const std::error_code& error) {
                                output.waiting = false;
                                if (!error) pump(output);
                              });
}

}  // namespace hgt
