#include "console_queue.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

namespace hgt {
namespace {

constexpr std::size_t kFullBytes = 1 << 20;
// What poll() promises room for in a pipe: more could block.
constexpr std::size_t kMaxWriteBytes = 4096;

bool can_take(int fd) {
  pollfd event{fd, POLLOUT, 0};
  return poll(&event, 1, 0) > 0;
}

const char* name_of(int fd) {
  return fd == STDOUT_FILENO ? "stdout" : "stderr";
}

int duplicate(int fd) {
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) throw std::system_error(errno, std::generic_category(), name_of(fd));
  return copy;
}

}  // namespace

ConsoleQueue::Output::Output(asio::io_context& io, int descriptor) : fd(descriptor), events(io) {
  struct stat status {};
  if (fstat(fd, &status) != 0)
    gone = true;  // closed from the start: nobody wants to read it
  else if (!S_ISREG(status.st_mode))
    events.assign(duplicate(fd));
}

ConsoleQueue::ConsoleQueue(asio::io_context& io, Events events)
    : events_(std::move(events)), outputs_{Output(io, STDOUT_FILENO), Output(io, STDERR_FILENO)} {}

void ConsoleQueue::write(Stream stream, std::string_view text) {
  Output& output = outputs_[stream];
  if (output.gone) return;
  output.queue.append(text);
  if (!output.waiting) pump(output);
}

bool ConsoleQueue::is_full() const {
  return std::any_of(outputs_.begin(), outputs_.end(),
                     [](const Output& o) { return o.queue.size() > kFullBytes; });
}

bool ConsoleQueue::is_empty() const {
  return std::all_of(outputs_.begin(), outputs_.end(),
                     [](const Output& o) { return o.queue.empty(); });
}

std::string ConsoleQueue::what_was_dropped() const {
  std::string out;
  for (const Output& output : outputs_)
    if (output.dropped_bytes > 0)
      out += fmt::format("{}{} bytes of the workers' {} were dropped", out.empty() ? "" : ", ",
                         output.dropped_bytes, name_of(output.fd));
  return out;
}

void ConsoleQueue::drop(Output& output, int error_number) {
  const bool is_first = output.dropped_bytes == 0;
  output.gone = error_number == EPIPE;
  if (!output.gone) output.dropped_bytes += static_cast<std::int64_t>(output.queue.size());
  output.queue.clear();
  if (output.gone) return events_.gone();
  if (is_first)
    events_.failed(
        fmt::format("{} cannot be written: {}; the job continues, but what it prints is dropped",
                    name_of(output.fd), std::strerror(error_number)));
}

void ConsoleQueue::pump(Output& output) {
  std::size_t done = 0;
  while (done < output.queue.size() && can_take(output.fd)) {
    const std::size_t bytes = std::min(kMaxWriteBytes, output.queue.size() - done);
    const ssize_t written = ::write(output.fd, output.queue.data() + done, bytes);
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (written < 0) {
      output.queue.erase(0, done);
      return drop(output, errno);
    }
    done += static_cast<std::size_t>(written);
  }
  output.queue.erase(0, done);
  if (output.queue.empty()) return;
  output.waiting = true;
  output.events.async_wait(asio::posix::stream_descriptor::wait_write,
                           [this, &output](const std::error_code& error) {
                             output.waiting = false;
                             if (!error) pump(output);
                           });
}

}  // namespace hgt
