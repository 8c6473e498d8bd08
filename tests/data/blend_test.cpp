#include "../../src/data/blend.h"

#include <cmath>

#include <catch2/catch.hpp>

using hgt::Blend;

TEST_CASE("a blend deals every draw once, in order, and near its share at every point") {
  const std::vector<std::vector<double>> cases = {
      {1}, {1, 1}, {3, 1}, {0.1, 0.2, 0.7}, {5, 1, 1, 1}};
  for (const auto& weights : cases) {
    for (const std::int64_t n : {std::ssize(weights), std::int64_t{10}, std::int64_t{97}}) {
      const Blend blend(weights, n);
      std::vector<std::int64_t> drawn(weights.size());
      for (std::int64_t p = 0; p < n; ++p) {
        const Blend::Draw draw = blend.at(p);
        REQUIRE(draw.index == drawn[draw.file]++);
        for (std::size_t i = 0; i < weights.size(); ++i) {
          const double due =
              static_cast<double>(blend.counts()[i] * (p + 1)) / static_cast<double>(n);
          REQUIRE(std::abs(static_cast<double>(drawn[i]) - due) <= 1.0 + weights.size() / 2.0);
        }
      }
      CHECK(drawn == blend.counts());
    }
  }
}

TEST_CASE("shares are rounded to whole samples, at least one") {
  CHECK(Blend(std::vector{1.0, 1.0, 1.0}, 10).counts() == std::vector<std::int64_t>{4, 3, 3});
  CHECK(Blend(std::vector{1e-9, 1.0}, 10).counts() == std::vector<std::int64_t>{1, 9});
  CHECK(Blend(std::vector{1e-9, 1e-9, 1.0}, 3).counts() == std::vector<std::int64_t>{1, 1, 1});
}
