#include "peer_sockets.h"

#include <fcntl.h>
#include <iostream>
#include <netdb.h>
#include <netinet/in.h>
#include <sstream>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "support/ranks.h"

using namespace hgt;

namespace {

/// What a rank has published for the others: its address, its port and its token.
struct Place {
  explicit Place(Store& store, int rank) {
    std::istringstream(
        store.get("comm/world/endpoint of " + std::to_string(rank), std::chrono::minutes(1))) >>
        address >> port >> token;
  }
  std::string address, port, token;
};

/// Somebody who has connected there and says `words`.
OwnedFd stranger(const Place& place, const std::string& words) {
  addrinfo* found = nullptr;
  REQUIRE(getaddrinfo(place.address.c_str(), place.port.c_str(), nullptr, &found) == 0);
  OwnedFd out(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(connect(out.get(), found->ai_addr, found->ai_addrlen) == 0);
  freeaddrinfo(found);
  REQUIRE(send(out.get(), words.data(), words.size(), MSG_NOSIGNAL) == std::ssize(words));
  return out;
}

/// What comes until the other end closes.
std::string rest(const OwnedFd& socket) {
  std::string out;
  char buffer[256];
  for (ssize_t bytes; (bytes = recv(socket.get(), buffer, sizeof buffer, 0)) > 0;)
    out.append(buffer, static_cast<std::size_t>(bytes));
  return out;
}

/// A group of two whose rank 0 listens; rank 1 comes when the test says so.
struct PairOfPeers {
  explicit PairOfPeers(const std::string& at = "127.0.0.1") : address(at) {}
  std::vector<OwnedFd> run(int rank) {
    return connect_peers(channel, {.rank = rank, .size = 2}, address);
  }
  std::string address;
  MemoryChannel channel;
};

void check_connected(const std::vector<OwnedFd>& first, const std::vector<OwnedFd>& second) {
  REQUIRE(first[1].get() >= 0);
  CHECK(first[0].get() < 0);
  REQUIRE(send(first[1].get(), "hello", 5, 0) == 5);
  fcntl(second[0].get(), F_SETFL, 0);
  char text[5];
  CHECK(recv(second[0].get(), text, 5, MSG_WAITALL) == 5);
  CHECK(std::string(text, 5) == "hello");
}

}  // namespace

TEST_CASE("ranks connect, also over IPv6") {
  PairOfPeers pair(GENERATE("127.0.0.1", "::1"));
  std::vector<OwnedFd> second;
  std::jthread other([&] { second = pair.run(1); });
  const auto first = pair.run(0);
  other.join();
  check_connected(first, second);
}

TEST_CASE("a process that connects without the token is dropped, and learns nothing") {
  std::ostringstream log;
  std::streambuf* const before = std::cerr.rdbuf(log.rdbuf());
  PairOfPeers pair;
  std::vector<OwnedFd> first, second;
  std::jthread listening([&] { first = pair.run(0); });
  const Place place(pair.channel, 0);
  pair.channel.set("comm/world/endpoint of 1", "127.0.0.1 1 " + std::string(64, 'a'));
  const std::string right = place.token, wrong(64, '0'), rank = "00000001";
  for (const std::string& words : {wrong + rank, right + "00000000", right + "00000002",
                                   right + "-0000001", right + "xxxxxxxx", std::string(1000, 'x')})
    CHECK(rest(stranger(place, words)).empty());
  const OwnedFd silent = stranger(place, ""), slow = stranger(place, right);
  const OwnedFd proven = stranger(place, right + rank);
  listening.join();
  CHECK(first[1].get() >= 0);
  char answer[64];
  CHECK(recv(proven.get(), answer, sizeof answer, MSG_WAITALL) == 64);
  CHECK(std::string(answer, 64) == std::string(64, 'a'));
  CHECK(rest(silent).empty());
  CHECK(rest(slow).empty());
  std::cerr.rdbuf(before);
  CHECK(log.str() ==
        "dropped a connection at the port of rank 0 without the token of this job\n"
        "dropped 5 connections at the port of rank 0 without the token of this job\n");
}

TEST_CASE("many strangers at once do not keep a rank out") {
  PairOfPeers pair;
  std::vector<OwnedFd> first;
  std::jthread listening([&] { first = pair.run(0); });
  const Place place(pair.channel, 0);
  std::vector<OwnedFd> silent;
  for (int i = 0; i < 500; ++i) silent.push_back(stranger(place, ""));
  const auto second = pair.run(1);
  listening.join();
  check_connected(first, second);
}

TEST_CASE(
    "a process that has a rank's port, but does not know the caller's token, is not that rank") {
  PairOfPeers pair;
  const OwnedFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(listen(listener.get(), 1) == 0);
  sockaddr_in address{};
  socklen_t length = sizeof address;
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length);
  pair.channel.set(
      "comm/world/endpoint of 0",
      "127.0.0.1 " + std::to_string(ntohs(address.sin_port)) + " " + std::string(64, 'a'));
  std::jthread impostor([&] {
    const OwnedFd caller(accept(listener.get(), nullptr, nullptr));
    const std::string answer(64, 'b');
    (void)!send(caller.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    rest(caller);
  });
  CHECK_THROWS_WITH(pair.run(1), Catch::Contains("another process listens there"));
}

TEST_CASE("a rank that cannot be reached, or does not come, is named") {
  MemoryChannel channel;
  const GroupOptions options{.rank = 1, .size = 2, .timeout = std::chrono::milliseconds(200)};
  channel.set("comm/world/endpoint of 0", "127.0.0.1 1 " + std::string(64, 'a'));
  CHECK_THROWS_WITH(connect_peers(channel, options, "127.0.0.1"),
                    "cannot connect to rank 0 at 127.0.0.1, port 1: Connection refused");
  channel.set("comm/world/endpoint of 1", "127.0.0.1 1 " + std::string(64, 'a'));
  CHECK_THROWS_WITH(
      connect_peers(channel, {.rank = 0, .size = 2, .timeout = std::chrono::milliseconds(200)},
                    "127.0.0.1"),
      "rank 1 did not connect within 0.2 s");
  channel.set("comm/world/endpoint of 1", "nonsense");
  CHECK_THROWS_WITH(
      connect_peers(channel, {.rank = 0, .size = 2, .timeout = std::chrono::milliseconds(200)},
                    "127.0.0.1"),
      "rank 1 did not give its address");
}
