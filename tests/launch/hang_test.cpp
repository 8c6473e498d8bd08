#include "hang.h"

#include <vector>

#include <catch2/catch.hpp>

using namespace hgt;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

Pulse pulse(int rank, std::int64_t collective, std::int64_t heard_s, std::int64_t changed_s) {
  return {rank,
          {.step = 5,
           .collective = static_cast<std::uint64_t>(collective),
           .phase = "phase" + std::to_string(rank),
           .begun = 6},
          heard_s * kSecond,
          changed_s * kSecond};
}

std::optional<Hang> at(std::int64_t now_s, const std::vector<Pulse>& pulses) {
  return find_hang(pulses, now_s * kSecond, 30s, 60s);
}

}  // namespace

TEST_CASE("ranks that are heard from and make progress have not hung") {
  CHECK_FALSE(at(100, {}));
  CHECK_FALSE(at(100, {pulse(0, 8, 99, 45), pulse(1, 8, 75, 45)}));
  // Rank 1 still gets somewhere, and the others wait for it: slow is not stuck.
  CHECK_FALSE(at(100, {pulse(0, 8, 99, 10), pulse(1, 7, 99, 98)}));
}

namespace {

Heartbeat beat(std::int64_t step, const std::string& phase, std::uint64_t work) {
  return {step, 0, phase, work};
}

/// A rank after so many steps, in which it stood still for at most 2 s, but for 40 s in the first.
Pulse after_steps(int steps) {
  Pulse pulse;
  std::int64_t at_s = 0;
  std::uint64_t work = 0;
  for (int step = 0; step < steps; ++step) {
    pulse.hear(beat(step, "reading the batch", work), (at_s += 1) * kSecond);
    pulse.hear(beat(step, "forward", ++work), (at_s += 50) * kSecond);
    pulse.hear(beat(step, "backward", ++work), (at_s += step == 0 ? 40 : 2) * kSecond);
  }
  pulse.hear(beat(steps, "forward", work), (at_s + 1) * kSecond);
  return pulse;
}

}  // namespace

TEST_CASE("a rank may stand still in a step for ten times as long as before, within limits") {
  CHECK(after_steps(2).budget(600s) == 600s);  // these may be slow because they are the first
  Pulse pulse = after_steps(6);
  CHECK(pulse.budget(150s) == 20s);
  CHECK(pulse.budget(600s) == 60s);
  CHECK(pulse.budget(10s) == 10s);
  for (const char* phase : {"reading the batch", "saving", "evaluating"}) {
    pulse.last.phase = phase;
    CHECK(pulse.budget(150s) == 150s);
  }
}

TEST_CASE("an evaluation has its own budget, which the first one gives it") {
  Pulse pulse = after_steps(6);
  const std::int64_t begin_ns = pulse.changed_ns;
  pulse.hear(beat(6, "evaluating", 100), begin_ns + kSecond);
  pulse.hear(beat(6, "evaluating", 101), begin_ns + 5 * kSecond);
  CHECK(pulse.budget(150s) == 150s);
  pulse.hear(beat(6, "forward", 102), begin_ns + 6 * kSecond);
  CHECK(pulse.budget(150s) == 20s);
  pulse.hear(beat(6, "evaluating", 103), begin_ns + 7 * kSecond);
  CHECK(pulse.budget(150s) == 40s);
}

TEST_CASE("it is a hang once all ranks have stood still for longer than their budgets") {
  std::vector<Pulse> pulses = {after_steps(6), after_steps(6)};
  const std::int64_t since_ns = pulses[0].changed_ns;
  for (Pulse& pulse : pulses) pulse.heard_ns = since_ns + 30 * kSecond;
  CHECK_FALSE(find_hang(pulses, since_ns + 19 * kSecond, 30s, 150s));
  CHECK(find_hang(pulses, since_ns + 20 * kSecond, 30s, 150s));
  pulses[1].last.phase = "reading the batch";
  CHECK_FALSE(find_hang(pulses, since_ns + 20 * kSecond, 30s, 150s));
}

TEST_CASE("a rank that is not heard from has hung, whatever the others do") {
  const auto hang = at(100, {pulse(0, 8, 99, 99), pulse(1, 7, 70, 70), pulse(2, 8, 69, 99)});
  REQUIRE(hang);
  CHECK(hang->rank == 2);
  CHECK(
      hang->message ==
      "rank 2 has not answered for 31 s\n"
      "    it was last heard in 'phase2' at step 6, collective 8; rank 0 is in 'phase0' at step 6, "
      "collective 8");
  CHECK(hang->hint.find("kill -STOP") != std::string::npos);
}

TEST_CASE("it says which rank waits for one that does not answer") {
  std::vector<Pulse> pulses = {pulse(0, 9, 99, 99), pulse(1, 8, 69, 99)};
  pulses[0].last.waits_in = "communication";
  pulses[0].last.waits_for = 9;
  CHECK(at(100, pulses)
            ->message.starts_with("rank 1 has not answered for 31 s; rank 0 waits for it\n"));
}

TEST_CASE("a rank that has yet to say hello may take longer to load, but not for ever") {
  Pulse loading = pulse(1, 0, 50, 50);
  loading.greeted = false;
  CHECK_FALSE(at(100, {pulse(0, 8, 99, 99), loading}));
  CHECK(at(110, {pulse(0, 8, 109, 109), loading})->rank == 1);
  loading.stopped = true;
  CHECK(at(100, {pulse(0, 8, 99, 99), loading})->rank == 1);
}

TEST_CASE("if all stand still, the one that is behind is named, and what the others wait for") {
  const auto hang = at(100, {pulse(0, 8, 99, 35), pulse(1, 7, 99, 39), pulse(2, 8, 99, 36)});
  REQUIRE(hang);
  CHECK(hang->rank == 1);
  CHECK(hang->message ==
        "no progress for 61 s: rank 1 is in 'phase1' at step 6, collective 7; rank 0 is in "
        "'phase0' at step 6, collective 8");
  CHECK(hang->hint.find("distributed.timeout_minutes") != std::string::npos);
}

TEST_CASE("of ranks in the same step, one that waits for no other is named") {
  std::vector<Pulse> pulses = {pulse(0, 8, 99, 35), pulse(1, 9, 99, 36), pulse(2, 7, 99, 30)};
  for (const int waiting : {0, 2}) {
    pulses[static_cast<std::size_t>(waiting)].last.waits_in = "pipeline: input";
    pulses[static_cast<std::size_t>(waiting)].last.waits_for = 3;
  }
  pulses[1].last.action = "B4.0";
  const auto hang = at(100, pulses);
  REQUIRE(hang);
  CHECK(hang->rank == 1);
  CHECK(hang->message ==
        "no progress for 64 s: rank 1 is in 'phase1' (B4.0) at step 6, collective 9; rank 0 is in "
        "'phase0' at step 6, collective 8, waiting for collective 3 of 'pipeline: input'");
  pulses[0].last.waits_in = "the device";
  pulses[0].last.waits_for = 0;
  CHECK(at(100, pulses)->message.ends_with(", collective 8, waiting for the device"));
}

TEST_CASE("if every rank waits, the network may be cut, and none is said to have hung") {
  std::vector<Pulse> pulses = {pulse(0, 8, 99, 35), pulse(1, 8, 99, 34)};
  pulses[0].last.waits_in = "communication";
  CHECK_FALSE(at(100, pulses)->all_wait);
  pulses[1].last.waits_in = "communication";
  const auto hang = at(100, pulses);
  CHECK(hang->all_wait);
  CHECK(hang->hint.find("the network between their hosts may be cut") != std::string::npos);
}

TEST_CASE("if all entered the same collective, the first to stop is named") {
  CHECK(at(100, {pulse(0, 8, 99, 35), pulse(1, 8, 99, 34), pulse(2, 8, 99, 36)})->rank == 1);
  CHECK(at(100, {pulse(0, 8, 99, 35)})->rank == 0);
}

TEST_CASE("of ranks that are stopped, the first hangs after the limit") {
  const std::vector<Pulse> pulses{pulse(2, 0, 65, 0), pulse(3, 0, 61, 0)};
  CHECK_FALSE(find_stopped({}, 90 * kSecond, 30s));
  CHECK_FALSE(find_stopped(pulses, 90 * kSecond, 30s));
  CHECK(find_stopped(pulses, 91 * kSecond, 30s)->rank == 3);
}
