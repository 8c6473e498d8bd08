#include "console_queue.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hgt {
namespace {

constexpr std::size_t kFullBytes = 1 << 20;
// What poll() promises room for in a pipe: more could block.
constexpr std::size_t kPieceBytes = 4096;

bool can_take(int fd) {
  pollfd event{fd, POLLOUT, 0};
  return poll(&event, 1, 0) > 0;
}

}  // namespace

ConsoleQueue::Output::Output(asio::io_context& io, int descriptor) : fd(descriptor), events(io) {
  struct stat status {};
  if (fstat(fd, &status) != 0)
    gone = true;  // closed from the start: nobody wants to read it
  else if (!S_ISREG(status.st_mode))
    events.assign(fcntl(fd, F_DUPFD_CLOEXEC, 3));
}

ConsoleQueue::ConsoleQueue(asio::io_context& io, std::function<void()> gone)
    : gone_(std::move(gone)), outputs_{Output(io, STDOUT_FILENO), Output(io, STDERR_FILENO)} {}

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

void ConsoleQueue::pump(Output& output) {
  std::size_t done = 0;
  while (done < output.queue.size() && can_take(output.fd)) {
    const std::size_t bytes = std::min(kPieceBytes, output.queue.size() - done);
    const ssize_t written = ::write(output.fd, output.queue.data() + done, bytes);
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (written < 0) {
      output.gone = true;
      output.queue.clear();
      return gone_();
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
