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

TEST_CASE("ranks that are heard of and move have not hung") {
  CHECK_FALSE(at(100, {}));
  CHECK_FALSE(at(100, {pulse(0, 8, 99, 45), pulse(1, 8, 75, 45)}));
  // Rank 1 still gets somewhere, and the others wait for it: slow is not stuck.
  CHECK_FALSE(at(100, {pulse(0, 8, 99, 10), pulse(1, 7, 99, 98)}));
}

TEST_CASE("a rank not heard of has hung, whatever the others do") {
  const auto hang = at(100, {pulse(0, 8, 99, 99), pulse(1, 7, 70, 70), pulse(2, 8, 69, 99)});
  REQUIRE(hang);
  CHECK(hang->rank == 2);
  CHECK(hang->reason.find("no sign of life for 31 s, in 'phase2'") != std::string::npos);
}

TEST_CASE("a rank that has yet to say hello may take longer to load, but not for ever") {
  Pulse loading = pulse(1, 0, 50, 50);
  loading.greeted = false;
  CHECK_FALSE(at(100, {pulse(0, 8, 99, 99), loading}));
  CHECK(at(110, {pulse(0, 8, 109, 109), loading})->rank == 1);
}

TEST_CASE("where all stand still, the one that is behind is named, and where the others wait") {
  const auto hang = at(100, {pulse(0, 8, 99, 35), pulse(1, 7, 99, 39), pulse(2, 8, 99, 36)});
  REQUIRE(hang);
  CHECK(hang->rank == 1);
  CHECK(hang->reason ==
        "has hung: no progress for 61 s, in 'phase1' at step 6, collective 7; rank 0 "
        "stands in 'phase0' at step 6, collective 8");
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
  CHECK(hang->reason ==
        "has hung: no progress for 64 s, in 'phase1' (B4.0) at step 6, collective 9; rank 0 stands "
        "in 'phase0' at step 6, collective 8, waiting for collective 3 of 'pipeline: input'");
  pulses[0].last.waits_in = "the device";
  pulses[0].last.waits_for = 0;
  CHECK(at(100, pulses)->reason.ends_with(", collective 8, waiting for the device"));
}

TEST_CASE("where all entered the same collective, the first to stop is named") {
  CHECK(at(100, {pulse(0, 8, 99, 35), pulse(1, 8, 99, 34), pulse(2, 8, 99, 36)})->rank == 1);
  CHECK(at(100, {pulse(0, 8, 99, 35)})->rank == 0);
}
