#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <system_error>

#include <asio/ip/tcp.hpp>
#include <asio/ssl.hpp>

namespace hgt {

using TlsStream = asio::ssl::stream<asio::ip::tcp::socket>;

/// TLS 1.3 between processes that know the secret of a job, without certificates: the key that both
/// derive from it proves who they are, and a fresh key exchange keeps recorded streams secret even
/// if the secret becomes known later.
class JobTls {
 public:
  enum class Side { kClient, kServer };
  JobTls(Side side, const std::string& secret);
  JobTls(const JobTls&) = delete;
  JobTls& operator=(const JobTls&) = delete;

  /// The context for streams, which must not outlive this.
  asio::ssl::context& context() { return context_; }
  /// After the handshake of `stream`: the peer knows the secret. A peer that has only shown a
  /// certificate does not.
  static bool knows_secret(TlsStream& stream);
  /// Why a server's handshake failed: the peer uses the key of another secret.
  static bool is_other_secret(const std::error_code& error);

 private:
  std::array<unsigned char, 32> key_;
  asio::ssl::context context_;
};

}  // namespace hgt
