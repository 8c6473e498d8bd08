#include "hgtrain/train/machine_rates.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <catch2/catch.hpp>

#include "hgtrain/comm/connect.h"

using namespace hgt;

TEST_CASE("a machine has a rate of products in every type, and of copies") {
  ThreadPool pool(2);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    CHECK(measure_matrix_rate(pool, dtype, 0) > 1e6);
  CHECK(measure_copy_rate(pool) > 1e6);
}

TEST_CASE("numbers to multiply are between -1 and 1, and differ") {
  ThreadPool pool(1);
  const Buffer values = drawn_numbers("numbers", 3000000, DType::kF32, pool);
  const auto numbers = values.as<float>();
  CHECK(std::ranges::min(numbers) < -0.99f);
  CHECK(std::ranges::max(numbers) > 0.99f);
  CHECK(std::ranges::all_of(numbers, [](float x) { return std::abs(x) <= 1; }));
  CHECK(std::set(numbers.begin(), numbers.begin() + 1000).size() > 990);
}

TEST_CASE("a core that several ranks share is counted once") {
  const auto share = [](int ranks, int threads, double cores) {
    const CoreShare out = share_cores(ranks, threads, cores);
    return std::pair(out.measuring, out.scale);
  };
  CHECK(share(1, 2, 2) == std::pair(1, 1.0));
  CHECK(share(2, 1, 2) == std::pair(2, 1.0));
  CHECK(share(2, 1, 16) == std::pair(2, 1.0));  // of 16 cores two are used
  CHECK(share(8, 1, 2) == std::pair(2, 1.0));   // eight ranks have no more than two cores
  CHECK(share(3, 3, 4) == std::pair(1, 4.0 / 3));
  CHECK(share(4, 8, 2) == std::pair(1, 1.0));    // one rank's threads have all cores
  CHECK(share(4, 1, 1.5) == std::pair(1, 1.5));  // a control group allows a core and a half
  CHECK(share(2, 1, 0.5) == std::pair(1, 1.0));
}

TEST_CASE("a step that beats the measured peak raises it, and no share is more than one") {
  ThreadPool pool(1);
  const auto self = make_self_communicator();
  PeakRate peak = PeakRate::measure(pool, DType::kF32, *self);
  const double slow = peak.share(1e6);
  CHECK(slow > 0);
  CHECK(slow < 1);
  CHECK(peak.share(1e18) == 1);
  CHECK(peak.share(1e6) < slow);
}
