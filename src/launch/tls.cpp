#include "tls.h"

#include <cstring>
#include <string_view>

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>

#include "hgtrain/base/error.h"

namespace hgt {
namespace {

// With one suite there is no order of suites in which the right key would be refused
// (openssl#21226).
constexpr const char* kSuite = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char kSuiteNumber[] = {0x13, 0x01};
constexpr std::string_view kIdentity = "hgtrain";
constexpr std::string_view kPurpose = "hgtrain agent";
using Key = std::array<unsigned char, 32>;

void require(bool ok) {
  if (!ok) throw Error(ErrorKind::kInternal, "OpenSSL cannot set up TLS 1.3");
}

/// HKDF with SHA-256 (RFC 5869).
Key derived_key(const std::string& secret) {
  Key out{};
  const auto bytes = [](std::string_view text) { return const_cast<char*>(text.data()); };
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, const_cast<char*>("SHA256"), 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, bytes(secret), secret.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, bytes(kPurpose), kPurpose.size()),
      OSSL_PARAM_construct_end()};
  EVP_KDF* const kdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  EVP_KDF_CTX* const context = EVP_KDF_CTX_new(kdf);
  const bool ok = context && EVP_KDF_derive(context, out.data(), out.size(), parameters) == 1;
  EVP_KDF_CTX_free(context);
  EVP_KDF_free(kdf);
  require(ok);
  return out;
}

int key_index() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

/// The key in the form in which OpenSSL takes it: as if an earlier session had agreed on it.
/// nullptr if there is no memory.
SSL_SESSION* session_with_key(SSL* ssl) {
  const auto* const key =
      static_cast<const Key*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), key_index()));
  SSL_SESSION* const out = SSL_SESSION_new();
  if (out && SSL_SESSION_set1_master_key(out, key->data(), key->size()) &&
      SSL_SESSION_set_cipher(out, SSL_CIPHER_find(ssl, kSuiteNumber)) &&
      SSL_SESSION_set_protocol_version(out, TLS1_3_VERSION))
    return out;
  SSL_SESSION_free(out);
  return nullptr;
}

int offer_key(SSL* ssl, const EVP_MD*, const unsigned char** identity, std::size_t* length,
              SSL_SESSION** session) {
  *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *length = kIdentity.size();
  *session = session_with_key(ssl);
  return *session != nullptr;
}

int find_key(SSL* ssl, const unsigned char* identity, std::size_t length, SSL_SESSION** session) {
  const std::string_view offered(reinterpret_cast<const char*>(identity), length);
  *session = offered == kIdentity ? session_with_key(ssl) : nullptr;
  return *session != nullptr || offered != kIdentity;  // no session: the handshake fails
}

}  // namespace

JobTls::JobTls(Side side, const std::string& secret)
    : key_(derived_key(secret)),
      context_(side == Side::kClient ? asio::ssl::context::tlsv13_client
                                     : asio::ssl::context::tlsv13_server) {
  SSL_CTX* const context = context_.native_handle();
  require(SSL_CTX_set_ciphersuites(context, kSuite) == 1 &&
          SSL_CTX_set_num_tickets(context, 0) == 1 &&
          SSL_CTX_set_ex_data(context, key_index(), &key_) == 1);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  if (side == Side::kClient)
    SSL_CTX_set_psk_use_session_callback(context, offer_key);
  else
    SSL_CTX_set_psk_find_session_callback(context, find_key);
}

bool JobTls::knows_secret(TlsStream& stream) {
  return SSL_session_reused(stream.native_handle()) == 1;
}

bool JobTls::is_other_secret(const std::error_code& error) {
  return error.category() == asio::error::get_ssl_category() &&
         ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_BINDER_DOES_NOT_VERIFY;
}

}  // namespace hgt
