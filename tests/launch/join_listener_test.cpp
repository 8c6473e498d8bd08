#include "join_listener.h"

#include <string>
#include <vector>

#include <asio/write.hpp>
#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "payload.h"

using namespace hgt;
using asio::ip::tcp;

namespace {

const std::string kSecret = "the secret of a job, long enough";

struct Listening {
  Listening()
      : listener(io, listen_for_nodes(0), kSecret,
                 {[this](const Newcomer& n) { newcomers.push_back(n); },
                  [this](const std::string& address) { other_secrets.push_back(address); }}) {}

  tcp::endpoint place() const {
    return {asio::ip::address_v4::loopback(), static_cast<asio::ip::port_type>(listener.port())};
  }
  tcp::socket stranger() {
    tcp::socket out(io);
    out.connect(place());
    return out;
  }
  /// The listener closes the connection.
  bool is_dropped(tcp::socket& socket) {
    bool is_over = false;
    char byte;
    socket.async_read_some(asio::buffer(&byte, 1), [&](const std::error_code& error, std::size_t) {
      is_over = static_cast<bool>(error);
    });
    while (!is_over) io.run_one();
    return is_over;
  }
  /// What a client that knows `secret` sends.
  std::unique_ptr<TlsStream> say(JobTls& tls, const std::string& text) {
    auto out = std::make_unique<TlsStream>(io, tls.context());
    out->lowest_layer().connect(place());
    std::optional<std::error_code> end;
    out->async_handshake(TlsStream::client, [&](const std::error_code& error) {
      if (error) {
        end = error;
        return;
      }
      asio::async_write(*out, asio::buffer(text),
                        [&](const std::error_code& e, std::size_t) { end = e; });
    });
    while (!end) io.run_one();
    return out;
  }

  asio::io_context io;
  std::vector<Newcomer> newcomers;
  std::vector<std::string> other_secrets;
  JoinListener listener;
};

std::string frame_of(const Join& join) {
  return encode_frame(Join::kKind, encode_payload(join));
}

}  // namespace

TEST_CASE("a node that knows the secret is announced with what it says about itself") {
  Listening here;
  JobTls tls(JobTls::Side::kClient, kSecret);
  Join join;
  join.node = 3;
  join.num_nodes = 4;
  join.host = "b";
  const auto stream = here.say(tls, frame_of(join) + "what follows");
  while (here.newcomers.empty()) here.io.run_one();
  const Newcomer& newcomer = here.newcomers[0];
  CHECK(newcomer.is_readable);
  CHECK(newcomer.join.node == 3);
  CHECK(newcomer.join.host == "b");
  CHECK(newcomer.address == "127.0.0.1");
  CHECK(newcomer.our_address == "127.0.0.1");
  const auto [in, out] = newcomer.carrier->start();
  std::string rest(12, ' ');
  for (std::size_t done = 0; done < rest.size();) {
    here.io.run_one();
    const ssize_t bytes = recv(in.get(), rest.data() + done, rest.size() - done, MSG_DONTWAIT);
    if (bytes > 0) done += static_cast<std::size_t>(bytes);
  }
  CHECK(rest == "what follows");
}

TEST_CASE("a node of another version of hgtrain is announced as such") {
  Listening here;
  JobTls tls(JobTls::Side::kClient, kSecret);
  Join later;
  later.version = kAgentVersion + 1;
  const auto one = here.say(tls, frame_of(later));
  const auto other = here.say(tls, encode_frame(Join::kKind, "another form"));
  while (here.newcomers.size() < 2) here.io.run_one();
  for (const Newcomer& newcomer : here.newcomers) CHECK_FALSE(newcomer.is_readable);
}

TEST_CASE("a client that does not know the secret, or sends too much, is dropped") {
  Listening here;
  tcp::socket garbage = here.stranger();
  asio::write(garbage, asio::buffer("GET / HTTP/1.1\r\n\r\n", 18));
  CHECK(here.is_dropped(garbage));
  CHECK(here.other_secrets.empty());
  JobTls wrong(JobTls::Side::kClient, kSecret + "!");
  const auto stream = here.say(wrong, frame_of({}));
  CHECK(here.is_dropped(stream->next_layer()));
  CHECK(here.other_secrets == std::vector<std::string>{"127.0.0.1"});
  JobTls tls(JobTls::Side::kClient, kSecret);
  const auto huge = here.say(tls, std::string("\xff\xff\xff\x7f", 4));
  CHECK(here.is_dropped(huge->next_layer()));
  CHECK(here.newcomers.empty());
}

TEST_CASE(
    "silent connections of one address are limited in number and time, and keep no node out") {
  Listening here;
  std::vector<tcp::socket> silent;
  for (std::size_t i = 0; i < JoinListener::kMaxPerAddress; ++i) silent.push_back(here.stranger());
  JobTls tls(JobTls::Side::kClient, kSecret);
  const auto stream = here.say(tls, frame_of({}));
  while (here.newcomers.empty()) here.io.run_one();
  for (tcp::socket& socket : silent)
    CHECK(here.is_dropped(socket));  // the last at the limit of time
}

TEST_CASE("a port that is in use is an error that names it") {
  Listening here;
  try {
    listen_for_nodes(here.listener.port());
    FAIL("it listens");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kDevice);
    CHECK(error.message().find(std::to_string(here.listener.port())) != std::string::npos);
    CHECK(error.hint().find("--master_port") != std::string::npos);
  }
}
