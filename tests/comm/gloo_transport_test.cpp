#include "gloo_transport.h"

#include <array>
#include <future>
#include <thread>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "support/ranks.h"

using namespace hgt;

namespace {

/// Runs `body` on the transports of two ranks at once.
template <class Body>
void run_pair(std::chrono::milliseconds timeout, const Body& body) {
  MemoryChannel channel;
  const auto run = [&](int rank) {
    GlooTransport transport(channel, {.rank = rank, .size = 2, .timeout = timeout}, "127.0.0.1");
    body(transport);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

}  // namespace

TEST_CASE("two ranks exchange messages of different sizes, in order") {
  run_pair(std::chrono::seconds(10), [](GlooTransport& transport) {
    const int peer = 1 - transport.rank();
    for (std::size_t i = 1; i < 4; ++i) {
      std::vector<std::byte> out(i * 1000 + transport.rank(), std::byte(i)), in(i * 1000 + peer);
      transport.exchange(out, peer, in, peer);
      CHECK(in.back() == std::byte(i));
    }
    transport.exchange({}, peer, {}, peer);
    transport.leave();
  });
}

TEST_CASE("all_gather brings every rank's bytes in rank order") {
  run_pair(std::chrono::seconds(10), [](GlooTransport& transport) {
    const std::array mine{std::byte(10 + transport.rank()), std::byte{7}};
    std::array<std::byte, 4> all;
    transport.all_gather(mine, all);
    CHECK(all == std::array{std::byte{10}, std::byte{7}, std::byte{11}, std::byte{7}});
    transport.leave();
  });
}

TEST_CASE("a rank that never comes to the rendezvous is an error") {
  MemoryChannel channel;
  CHECK_THROWS_AS(
      GlooTransport(channel, {.rank = 0, .size = 2, .timeout = std::chrono::milliseconds(50)},
                    "127.0.0.1"),
      Error);
}
