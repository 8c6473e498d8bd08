#include "stderr_buffer.h"

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <string_view>
#include <unistd.h>

#include <fmt/format.h>

#include "hgtrain/base/no_pipe_signal.h"

namespace hgt {
namespace {

/// How much of `text` was written; the rest could not be.
std::size_t write_to(int fd, std::string_view text) {
  const NoPipeSignal no_signal;
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(fd, text.data() + done, text.size() - done);
    if (written > 0) done += static_cast<std::size_t>(written);
    if (written >= 0 || errno == EINTR) continue;
    if (errno != EAGAIN) break;
    pollfd event{fd, POLLOUT, 0};  // somebody else made it non-blocking
    poll(&event, 1, -1);
  }
  return done;
}

}  // namespace

StderrBuffer::int_type StderrBuffer::overflow(int_type character) {
  const char text = traits_type::to_char_type(character);
  xsputn(&text, 1);
  return traits_type::not_eof(character);
}

std::streamsize StderrBuffer::xsputn(const char* text, std::streamsize bytes) {
  if (dropped_bytes_ > 0) {
    const std::string note =
        fmt::format("\nhgtrain: note: {} bytes of output were dropped here: {}\n", dropped_bytes_,
                    std::strerror(error_number_));
    if (write_to(fd_, note) == note.size()) dropped_bytes_ = 0;
  }
  const std::size_t done =
      dropped_bytes_ > 0 ? 0 : write_to(fd_, {text, static_cast<std::size_t>(bytes)});
  if (const auto lost = bytes - static_cast<std::streamsize>(done); lost > 0) {
    if (dropped_bytes_ == 0) error_number_ = errno;
    dropped_bytes_ += lost;
  }
  return bytes;
}

}  // namespace hgt
