#include "gloo_transport.h"

#include <array>
#include <future>
#include <thread>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "support/ranks.h"

using namespace hgt;

namespace {

/// Runs `body` on the transports of two ranks at once; returns whether both report success.
template <class Body>
bool run_pair(std::chrono::milliseconds timeout, const Body& body) {
  MemoryChannel channel;
  bool right[2];
  const auto run = [&](int rank) {
    GlooTransport transport(channel, {.rank = rank, .size = 2, .timeout = timeout}, "127.0.0.1");
    right[rank] = body(transport);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  return right[0] && right[1];
}

}  // namespace

TEST_CASE("two ranks exchange messages of different sizes, in order") {
  CHECK(run_pair(std::chrono::minutes(1), [](GlooTransport& transport) {
    const int peer = 1 - transport.rank();
    bool right = true;
    for (std::size_t i = 1; i < 4; ++i) {
      std::vector<std::byte> out(i * 1000 + transport.rank(), std::byte(i)), in(i * 1000 + peer);
      transport.exchange(out, peer, in, peer);
      right &= in.back() == std::byte(i);
    }
    transport.exchange({}, peer, {}, peer);
    transport.leave();
    return right;
  }));
}

TEST_CASE("all_gather brings every rank's bytes in rank order") {
  CHECK(run_pair(std::chrono::minutes(1), [](GlooTransport& transport) {
    const std::array mine{std::byte(10 + transport.rank()), std::byte{7}};
    std::array<std::byte, 4> all;
    transport.all_gather(mine, all);
    transport.leave();
    return all == std::array{std::byte{10}, std::byte{7}, std::byte{11}, std::byte{7}};
  }));
}

TEST_CASE("a rank that never comes to the rendezvous is an error") {
  MemoryChannel channel;
  CHECK_THROWS_AS(
      GlooTransport(channel, {.rank = 0, .size = 2, .timeout = std::chrono::milliseconds(50)},
                    "127.0.0.1"),
      Error);
}
