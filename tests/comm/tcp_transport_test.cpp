#include "tcp_transport.h"

#include <algorithm>
#include <array>
#include <atomic>
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
    TcpTransport transport(channel, {.rank = rank, .size = 2, .timeout = timeout}, "127.0.0.1");
    right[rank] = body(transport);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  return right[0] && right[1];
}

}  // namespace

TEST_CASE("two ranks exchange messages of different sizes, in order") {
  CHECK(run_pair(std::chrono::minutes(1), [](TcpTransport& transport) {
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
  CHECK(run_pair(std::chrono::minutes(1), [](TcpTransport& transport) {
    const std::array mine{std::byte(10 + transport.rank()), std::byte{7}};
    std::array<std::byte, 4> all;
    transport.all_gather(mine, all);
    transport.leave();
    return all == std::array{std::byte{10}, std::byte{7}, std::byte{11}, std::byte{7}};
  }));
}

TEST_CASE(
    "messages of many sizes pass in both directions at once, in whatever order ranks wait for "
    "them") {
  CHECK(run_pair(std::chrono::minutes(1), [](TcpTransport& transport) {
    const int peer = 1 - transport.rank();
    std::vector<std::vector<std::byte>> out, in;
    for (std::size_t i = 0; i < 20; ++i) {
      out.emplace_back(i * i * 3'000, std::byte(i + transport.rank()));
      in.emplace_back(i * i * 3'000);
    }
    std::vector<TcpTransport::Transfer> transfers;
    for (std::size_t i = 0; i < out.size(); ++i) {
      transfers.push_back(transport.send(out[i], peer));
      transfers.push_back(transport.receive(in[i], peer));
    }
    for (std::size_t i = 0; i < transfers.size(); ++i)
      transfers[transport.rank() == 0 ? i : transfers.size() - 1 - i].wait();
    transport.leave();
    bool right = true;
    for (std::size_t i = 1; i < in.size(); ++i)
      right &= std::ranges::all_of(in[i], [&](std::byte b) { return b == std::byte(i + peer); });
    return right;
  }));
}

TEST_CASE("bytes move if nobody waits for their transfer, but for something else") {
  std::atomic<bool> received = false;
  CHECK(run_pair(std::chrono::minutes(1), [&](TcpTransport& transport) {
    std::vector<std::byte> bytes(std::size_t{32} << 20);  // more than the kernel keeps
    if (transport.rank() == 0) {
      TcpTransport::Transfer transfer = transport.send(bytes, 1);
      while (!received) transport.move_bytes();
      transfer.wait();
    } else {
      transport.receive(bytes, 0).wait();
      received = true;
    }
    transport.leave();
    return true;
  }));
}

TEST_CASE("if a transfer is given up before it is done, nothing else can be received as it") {
  CHECK(run_pair(std::chrono::minutes(1), [](TcpTransport& transport) {
    const int peer = 1 - transport.rank();
    std::vector<std::byte> bytes(2);
    { const auto given_up = transport.receive(bytes, peer); }
    transport.leave();  // both have
    try {
      transport.receive(bytes, peer).wait();
    } catch (const Error& e) {
      return e.kind() == ErrorKind::kPeer;
    }
    return false;
  }));
}

TEST_CASE("a rank that never comes to the rendezvous is an error") {
  MemoryChannel channel;
  CHECK_THROWS_AS(
      TcpTransport(channel, {.rank = 0, .size = 2, .timeout = std::chrono::milliseconds(50)},
                   "127.0.0.1"),
      Error);
}
