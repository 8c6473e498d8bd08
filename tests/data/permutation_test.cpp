#include "../../src/data/permutation.h"

#include <cmath>
#include <map>
#include <set>

#include <catch2/catch.hpp>

using hgt::permute;

TEST_CASE("a permutation hits every index once, for any size") {
  for (const std::int64_t n : {1, 2, 3, 4, 7, 255, 256, 257, 5000}) {
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = permute(1, 2, i, n);
      REQUIRE((at >= 0 && at < n));
      seen.insert(at);
    }
    CHECK(std::ssize(seen) == n);
  }
}

TEST_CASE("huge sizes cost no more") {
  const std::int64_t n = (std::int64_t{1} << 62) + 12345;
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < 1000; ++i) seen.insert(permute(7, 0, n - 1 - i, n));
  CHECK(seen.size() == 1000);
  CHECK((*seen.begin() >= 0 && *seen.rbegin() < n));
}

TEST_CASE("all orders of a few samples are about equally likely") {
  constexpr int kEpochs = 24000;
  std::map<std::array<std::int64_t, 4>, int> counts;
  for (int epoch = 0; epoch < kEpochs; ++epoch)
    ++counts[{permute(5, epoch, 0, 4), permute(5, epoch, 1, 4), permute(5, epoch, 2, 4),
              permute(5, epoch, 3, 4)}];
  CHECK(counts.size() == 24);
  double chi2 = 0;
  for (const auto& [order, count] : counts) chi2 += std::pow(count - 1000.0, 2) / 1000.0;
  CHECK(chi2 < 60);  // 23 degrees of freedom: 60 is beyond one in 10^4
}
