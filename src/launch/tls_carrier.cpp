#include "tls_carrier.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>

#include <asio/local/connect_pair.hpp>
#include <asio/write.hpp>
#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

TlsCarrier::TlsCarrier(std::unique_ptr<TlsStream> stream, std::shared_ptr<JobTls> tls)
    : tls_(std::move(tls)), stream_(std::move(stream)), local_(stream_->get_executor()) {}

void TlsCarrier::leave_open() {
  std::error_code ignored;
  stream_->lowest_layer().release(ignored);
}

std::pair<OwnedFd, OwnedFd> TlsCarrier::start() {
  asio::local::stream_protocol::socket theirs(stream_->get_executor());
  const auto refuse = [](const std::string& what, const std::string& why) {
    throw Error(ErrorKind::kDevice, fmt::format("cannot {} a socket: {}", what, why),
                "too many files are open; raise the limit with `ulimit -n`");
  };
  std::error_code error;
  asio::local::connect_pair(local_, theirs, error);
  if (error) refuse("make", error.message());
  OwnedFd in(fcntl(theirs.native_handle(), F_DUPFD_CLOEXEC, 3));
  OwnedFd out(fcntl(theirs.native_handle(), F_DUPFD_CLOEXEC, 3));
  if (in.get() < 0 || out.get() < 0) refuse("copy", std::strerror(errno));
  receive();
  send();
  return {std::move(in), std::move(out)};
}

void TlsCarrier::receive() {
  stream_->async_read_some(
      asio::buffer(received_),
      [self = shared_from_this()](const std::error_code& error, std::size_t bytes) {
        if (error) return self->close();
        asio::async_write(self->local_, asio::buffer(self->received_, bytes),
                          [self](const std::error_code& write_error, std::size_t) {
                            if (write_error) return self->close();
                            self->receive();
                          });
      });
}

void TlsCarrier::send() {
  local_.async_read_some(
      asio::buffer(sending_),
      [self = shared_from_this()](const std::error_code& error, std::size_t bytes) {
        if (error) return self->close();
        asio::async_write(*self->stream_, asio::buffer(self->sending_, bytes),
                          [self](const std::error_code& write_error, std::size_t) {
                            if (write_error) return self->close();
                            self->send();
                          });
      });
}

void TlsCarrier::close() {
  std::error_code ignored;
  local_.close(ignored);
  stream_->lowest_layer().close(ignored);
}

}  // namespace hgt
