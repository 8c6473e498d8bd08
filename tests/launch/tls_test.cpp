#include "tls.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>
#include <asio/write.hpp>
#include <catch2/catch.hpp>
#include <openssl/evp.h>
#include <openssl/x509.h>

using namespace hgt;
using asio::ip::tcp;

namespace {

/// The two ends of a connection, and how their handshake went.
struct Handshake {
  Handshake(asio::ssl::context& client_context, asio::ssl::context& server_context)
      : client(io, client_context), server(io, server_context) {
    tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
    client.lowest_layer().connect(acceptor.local_endpoint());
    acceptor.accept(server.lowest_layer());
    client.async_handshake(TlsStream::client,
                           [this](const std::error_code& e) { end(client, client_error, e); });
    server.async_handshake(TlsStream::server,
                           [this](const std::error_code& e) { end(server, server_error, e); });
    io.run();
  }
  bool server_trusts() { return !server_error && JobTls::knows_secret(server); }
  bool client_trusts() { return !client_error && JobTls::knows_secret(client); }

  asio::io_context io;
  TlsStream client, server;
  std::error_code client_error, server_error;

 private:
  static void end(TlsStream& stream, std::error_code& kept, const std::error_code& error) {
    kept = error;
    if (error) stream.lowest_layer().close();
  }
};

/// Of somebody else, who has signed it himself.
void use_certificate(asio::ssl::context& context) {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = X509_new();
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_sign(certificate, key, EVP_sha256());
  REQUIRE(SSL_CTX_use_certificate(context.native_handle(), certificate) == 1);
  REQUIRE(SSL_CTX_use_PrivateKey(context.native_handle(), key) == 1);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

const std::string kJobSecret = "the secret of a job, long enough";

}  // namespace

TEST_CASE("two ends that know the secret trust each other, over TLS 1.3 alone") {
  JobTls client(JobTls::Side::kClient, kJobSecret), server(JobTls::Side::kServer, kJobSecret);
  Handshake both(client.context(), server.context());
  CHECK(both.client_trusts());
  CHECK(both.server_trusts());
  CHECK(std::string(SSL_get_version(both.client.native_handle())) == "TLSv1.3");
  CHECK(std::string(SSL_get_cipher(both.client.native_handle())) == "TLS_AES_128_GCM_SHA256");
  asio::write(both.client, asio::buffer("hello", 5));
  char text[5];
  CHECK(both.server.read_some(asio::buffer(text)) == 5);
  CHECK(std::string(text, 5) == "hello");
}

TEST_CASE("another secret fails on both ends") {
  JobTls client(JobTls::Side::kClient, kJobSecret), server(JobTls::Side::kServer, kJobSecret + "!");
  Handshake both(client.context(), server.context());
  CHECK_FALSE(both.client_trusts());
  CHECK_FALSE(both.server_trusts());
  CHECK(JobTls::is_other_secret(both.server_error));
}

TEST_CASE("a client without a key, or of an older TLS, is refused") {
  JobTls server(JobTls::Side::kServer, kJobSecret);
  asio::ssl::context plain(asio::ssl::context::tlsv13_client);
  const Handshake both(plain, server.context());
  CHECK(both.server_error);
  CHECK_FALSE(JobTls::is_other_secret(both.server_error));
  asio::ssl::context old(asio::ssl::context::tlsv12_client);
  CHECK_FALSE(Handshake(old, server.context()).server_trusts());
}

TEST_CASE("a server that shows a certificate in place of the secret is not trusted") {
  JobTls client(JobTls::Side::kClient, kJobSecret);
  asio::ssl::context server(asio::ssl::context::tlsv13_server);
  use_certificate(server);
  Handshake both(client.context(), server);
  CHECK(!both.client_error);  // without the check, the client would continue
  CHECK_FALSE(both.client_trusts());
}
