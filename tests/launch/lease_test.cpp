#include "lease.h"

#include <thread>

#include "hgtrain/base/clock.h"

#include "agent_host.h"

using namespace hgt;

namespace {

/// A lease on one end of a stream; the other end is a link without one.
struct Leased {
  explicit Leased(Lease::Standstill standstill = Lease::Standstill::kCounts)
      : link(io, std::move(stream.in[0]), std::move(stream.out[0]),
             {[this](const Frame& frame) {
                lease.hear();
                if (frame.kind == MessageKind::kBeat)
                  lease.hear(decode_payload<Beat>(frame.payload));
              },
              [](const std::string&) {}}),
        peer(io, std::move(stream.in[1]), std::move(stream.out[1]),
             {[this](const Frame& frame) { on_beat(decode_payload<Beat>(frame.payload)); },
              [](const std::string&) {}}),
        lease(io, link, "the peer", standstill, [this] { expired = true; }) {}

  asio::io_context io;
  StreamPair stream;
  FrameLink link, peer;
  std::function<void(const Beat&)> on_beat = [](const Beat&) {};
  bool expired = false;
  Lease lease;
};

}  // namespace

TEST_CASE("a peer that is silent for the lease is lost, one that says anything is not") {
  Leased leased(Lease::Standstill::kExcused);
  int beats = 0;
  leased.on_beat = [&](const Beat&) {
    if (++beats < 20) leased.peer.send(Notice{"still here"});
  };
  leased.lease.start(std::chrono::milliseconds(500));
  while (!leased.expired) leased.io.run_one();
  CHECK(beats >= 20);
}

TEST_CASE("how long this process has stood still is known") {
  Leased leased;
  CHECK(leased.lease.standstill().count() == 0);
  leased.lease.start(std::chrono::milliseconds(50));
  const std::int64_t begin_ns = now_ns();
  while (now_ns() - begin_ns < 100'000'000) {
  }
  CHECK(leased.lease.standstill() >= std::chrono::milliseconds(100));  // before a tick
  const std::int64_t known_ns = leased.lease.standstill().count();
  leased.io.run_one();
  CHECK(leased.lease.standstill().count() >= known_ns);  // after it
}

TEST_CASE("a standstill that was over a lease ago does not count any more") {
  Leased leased(Lease::Standstill::kExcused);
  constexpr std::chrono::milliseconds kTime(1000);
  leased.on_beat = [&](const Beat&) { leased.peer.send(Notice{"still here"}); };
  leased.lease.start(std::chrono::milliseconds(200));
  std::this_thread::sleep_for(kTime);
  CHECK(leased.lease.standstill() >= kTime);
  while (leased.lease.standstill() >= kTime) leased.io.run_one();  // would not end otherwise
  CHECK_FALSE(leased.expired);
}

TEST_CASE("the peer's clock is known to within half of a round trip") {
  Leased leased(Lease::Standstill::kExcused);
  constexpr std::int64_t kAhead = 3'600'000'000'000;
  int beats = 0;
  leased.on_beat = [&](const Beat& beat) {
    ++beats;
    const std::int64_t now = now_ns();
    leased.peer.send(Beat{now + kAhead, beat.at_ns, 0});
  };
  leased.lease.start(std::chrono::milliseconds(500));
  while (beats < 5) leased.io.run_one();
  REQUIRE(leased.lease.uncertainty_ns() >= 0);
  CHECK(std::abs(leased.lease.peer_ahead_ns() - kAhead) <= leased.lease.uncertainty_ns() + 1);
}

TEST_CASE(
    "what is known about the peer's clock becomes old: a clock that was set back is noticed") {
  Leased leased(Lease::Standstill::kExcused);
  std::int64_t ahead = 3'600'000'000'000;
  int beats = 0;
  leased.on_beat = [&](const Beat& beat) {
    if (++beats == 5) ahead = 1'000'000'000;
    leased.peer.send(Beat{now_ns() + ahead, beat.at_ns, 0});
  };
  leased.lease.start(std::chrono::milliseconds(50));
  constexpr int kMostBeats = 2000;
  const auto error = [&] { return std::abs(leased.lease.peer_ahead_ns() - ahead); };
  while (!leased.expired && beats < kMostBeats &&
         (beats < 10 || error() > leased.lease.uncertainty_ns()))
    leased.io.run_one();
  CHECK(error() <= leased.lease.uncertainty_ns() + 1);
}

TEST_CASE(
    "the peer's first beat is answered at once, so that its clock counts in a short job, too") {
  Leased leased;
  std::vector<Beat> beats;
  leased.on_beat = [&](const Beat& beat) { beats.push_back(beat); };
  leased.lease.hear(Beat{42, 0, 0});  // no beat of the lease's own is due: it has not started
  while (beats.empty()) leased.io.run_one();
  CHECK(beats[0].answers_ns == 42);
}

TEST_CASE(
    "a process that was stopped does not blame its peer for that, or ends, as its options say") {
  const bool excused = GENERATE(true, false);
  Leased leased(excused ? Lease::Standstill::kExcused : Lease::Standstill::kCounts);
  int beats = 0;
  leased.on_beat = [&](const Beat&) { ++beats; };
  leased.lease.start(std::chrono::milliseconds(200));
  while (beats < 1) leased.io.run_one();
  const std::int64_t until = now_ns() + 400'000'000;
  while (now_ns() < until) {  // the loop does not run
  }
  CHECK(leased.lease.has_passed() == !excused);
  leased.lease.hear();  // what the peer sent before it gave this process up
  while (beats < 2 && !leased.expired) leased.io.run_one();
  CHECK(leased.expired == !excused);
}
