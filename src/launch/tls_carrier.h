#pragma once

#include <array>
#include <memory>
#include <utility>

#include <asio/local/stream_protocol.hpp>

#include "hgtrain/base/owned_fd.h"

#include "tls.h"

namespace hgt {

/// Carries a local stream over TLS, both ways, until either side ends it. Lives at least that long,
/// and as long as a shared_ptr holds it.
class TlsCarrier : public std::enable_shared_from_this<TlsCarrier> {
 public:
  /// `stream` has completed its handshake. `tls` is kept alive for it.
  TlsCarrier(std::unique_ptr<TlsStream> stream, std::shared_ptr<JobTls> tls);

  /// Begins, and returns the local end: a descriptor to read from, and one to write to.
  std::pair<OwnedFd, OwnedFd> start();
  /// Stops carrying data, but leaves the connection open until this process ends.
  void leave_open();

 private:
  void receive();
  void send();
  void close();

  const std::shared_ptr<JobTls> tls_;
  const std::unique_ptr<TlsStream> stream_;
  asio::local::stream_protocol::socket local_;
  std::array<char, 16 << 10> received_;
  std::array<char, 16 << 10> sending_;
};

}  // namespace hgt
