#include "hgtrain/device/thread_pool.h"

#include <atomic>
#include <limits>
#include <numeric>
#include <stdexcept>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

TEST_CASE("parallel_for covers every index once, in contiguous parts of even size") {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    CHECK(pool.threads() == threads);
    for (const std::int64_t n : {0, 1, 4, 5, 17, 1000}) {
      std::vector<int> thread_of(static_cast<std::size_t>(n), -1);
      pool.parallel_for(n, [&](std::int64_t begin, std::int64_t end, int thread) {
        for (std::int64_t i = begin; i < end; ++i) thread_of[static_cast<std::size_t>(i)] = thread;
      });
      CHECK(std::is_sorted(thread_of.begin(), thread_of.end()));
      CHECK((n == 0 || thread_of.front() >= 0));
      for (int thread = 0; thread < threads; ++thread) {
        const auto part = std::count(thread_of.begin(), thread_of.end(), thread);
        CHECK(part >= n / threads);
        CHECK(part <= n / threads + 1);
      }
    }
  }
}

TEST_CASE("hundreds of short jobs follow each other") {
  ThreadPool pool(3);
  std::atomic<std::int64_t> sum{0};
  for (int round = 0; round < 500; ++round)
    pool.parallel_for(3, [&](std::int64_t begin, std::int64_t end, int) { sum += end - begin; });
  CHECK(sum == 1500);
}

TEST_CASE("the first exception reaches the caller, and the pool continues") {
  ThreadPool pool(3);
  const auto fail = [](std::int64_t begin, std::int64_t, int) {
    if (begin > 0) throw std::runtime_error(std::to_string(begin));
  };
  CHECK_THROWS_WITH(pool.parallel_for(30, fail), "10");
  CHECK_THROWS_WITH(pool.parallel_for(60, fail), "20");
  CHECK_NOTHROW(pool.parallel_for(1, fail));
}

TEST_CASE("every thread flushes denormals") {
  ThreadPool pool(2);
  volatile float tiny = std::numeric_limits<float>::min();
  std::atomic<int> flushed{0};
  pool.parallel_for(2, [&](std::int64_t, std::int64_t, int) {
    volatile float half = tiny * 0.5f;
    flushed += half == 0.0f;
  });
  CHECK(flushed == 2);
}

TEST_CASE("scratch memory is each thread's own, stays, and is counted") {
  ThreadPool pool(2);
  float* const first = pool.scratch(0, 100);
  CHECK(first != pool.scratch(1, 10));
  CHECK(first == pool.scratch(0, 50));
  CHECK(reinterpret_cast<std::uintptr_t>(first) % Buffer::kAlignment == 0);
  CHECK(pool.scratch_bytes() == 110 * 4);
}

TEST_CASE("a pool without threads is refused") {
  CHECK_THROWS_AS(ThreadPool(0), Error);
}
