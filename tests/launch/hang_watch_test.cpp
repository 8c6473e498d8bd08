#include "hang_watch.h"

#include <thread>

#include <catch2/catch.hpp>

#include "hgtrain/base/clock.h"

using namespace hgt;
using namespace std::chrono_literals;

namespace {

/// Two ranks in step 6 that have not moved for `still`. Rank 1 waits for a peer, rank 0 for nobody.
struct WatchedAttempt {
  explicit WatchedAttempt(std::chrono::nanoseconds still) {
    spec.own_workers = true;
    spec.hang_limit = 60s;
    record.ranks.resize(2);
    for (int rank = 0; rank < 2; ++rank) {
      Pulse& pulse = record.ranks[static_cast<std::size_t>(rank)].pulse;
      pulse.rank = rank;
      pulse.last.begun = 6;
      pulse.last.collective = 7;
      pulse.heard_ns = now_ns();
      pulse.changed_ns = now_ns() - still.count();
    }
    record.ranks[1].pulse.last.waits_in = "all_reduce";
  }
  std::optional<Hang> straggler() { return watch.straggler_behind(record.ranks[1]); }

  asio::io_context io;
  JobSpec spec;
  AttemptRecord record{spec, 0, {}, {}};
  HangWatch watch{io, record, [](const Hang&) {}};
};

}  // namespace

TEST_CASE("a rank that has stood still for half the limit is to blame if another waits for it") {
  const auto hang = WatchedAttempt(31s).straggler();
  REQUIRE(hang);
  CHECK(hang->rank == 0);
  CHECK_FALSE(WatchedAttempt(1s).straggler());
}

TEST_CASE("a rank that waits in the same place, has failed or has ended is not to blame") {
  WatchedAttempt waits(31s);
  waits.record.ranks[0].pulse.last.waits_in = "all_reduce";
  CHECK_FALSE(waits.straggler());
  WatchedAttempt failed(31s);
  failed.record.failures.emplace(0, Failure{});
  CHECK_FALSE(failed.straggler());
  WatchedAttempt ended(31s);
  ended.record.ranks[0].end = Ended{};
  CHECK_FALSE(ended.straggler());
}

TEST_CASE("nobody is to blame for the time in which this process stood still") {
  WatchedAttempt attempt(31s);
  CHECK(attempt.straggler());
  std::this_thread::sleep_for(5100ms);
  CHECK_FALSE(attempt.straggler());
}

TEST_CASE("of another program, only a rank that is stopped hangs") {
  WatchedAttempt attempt(31s);
  attempt.spec.own_workers = false;
  std::optional<Hang> found;
  HangWatch watch(attempt.io, attempt.record, [&](const Hang& hang) {
    found = hang;
    watch.stop();
  });
  for (RankView& rank : attempt.record.ranks) rank.pulse.greeted = false;
  attempt.record.ranks[1].pulse.heard_ns -= std::chrono::nanoseconds(31s).count();
  watch.start();
  attempt.io.run_one();
  CHECK_FALSE(found);
  attempt.record.ranks[1].pulse.stopped = true;
  attempt.io.run_one();
  REQUIRE(found);
  CHECK(found->rank == 1);
  CHECK(found->message.starts_with("rank 1 has been stopped by a signal for 3"));
}

TEST_CASE("without a limit nobody hangs") {
  WatchedAttempt attempt(3600s);
  attempt.spec.hang_limit = 0ms;
  CHECK_FALSE(attempt.straggler());
  attempt.watch.start();
  attempt.io.run();  // nothing is waited for
}
