#include "wait_clock.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/comm/connect.h"
#include "hgtrain/device/thread_pool.h"

using namespace hgt;

TEST_CASE("a wait counts for the step in which it is made, all waits of a step together") {
  ThreadPool pool(1);
  const auto alone = make_self_communicator();
  WaitClock clock(pool);
  const auto wait = [] {
    for (const std::int64_t begin = now_ns(); now_ns() < begin + 1000;) {
    }
  };
  clock.measure(wait);  // before the first step
  clock.begin_step();
  clock.begin_step();
  clock.measure(wait);
  clock.measure(wait);
  CHECK(clock.take_ms(*alone) == 0);
  CHECK(clock.take_ms(*alone) >= 0.002);
  clock.begin_step();  // in the place of the first
  CHECK(clock.take_ms(*alone) == 0);
  clock.begin_step();  // and of the second
  CHECK(clock.take_ms(*alone) == 0);
}
