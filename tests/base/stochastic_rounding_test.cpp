#include "hgtrain/base/stochastic_rounding.h"

#include <cmath>
#include <limits>
#include <set>

#include <catch2/catch.hpp>

#include "hgtrain/base/half.h"

using namespace hgt;

TEST_CASE("the probability of rounding up is the number's distance from the one below") {
  for (const float x : {1.00390625f, -3.14159265f, 1e-30f, 6.6e37f, 1.0f, -1e-40f, 0.0f}) {
    const float below = round_stochastically(x, 0);  // by its magnitude
    const float above = round_stochastically(x, 0xffff);
    CHECK(std::abs(below) <= std::abs(x));
    CHECK(std::abs(above) >= std::abs(x));
    CHECK(BFloat16(below) == below);
    CHECK(BFloat16(above) == above);
    int up = 0;
    for (std::uint32_t random = 0; random < 0x10000; ++random) {
      const float rounded = round_stochastically(x, 0xabcd0000u | random);  // the lower half counts
      CHECK_FALSE((rounded != below && rounded != above));
      up += rounded == above ? 1 : 0;
    }
    if (below == above)
      CHECK(below == x);
    else
      CHECK(up / 65536.0 == Approx((x - below) / (above - below)));
  }
}

TEST_CASE("what is not finite stays what it is") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::uint32_t random : {0u, 0xffffu}) {
    CHECK(round_stochastically(infinity, random) == infinity);
    CHECK(round_stochastically(-infinity, random) == -infinity);
    for (const std::uint32_t nan : {0x7f800001u, 0x7fffffffu, 0xffffffffu})
      CHECK(std::isnan(round_stochastically(std::bit_cast<float>(nan), random)));
  }
  CHECK(round_stochastically(std::numeric_limits<float>::max(), 0xffff) == infinity);
}

TEST_CASE("each seed, update, parameter, value and element is rounded by a number of its own") {
  std::set<std::uint32_t> words;
  for (const std::uint64_t seed : {1, 2})
    for (const std::int64_t update : {1, 2})
      for (const Rounded what : {Rounded::kParameter, Rounded::kState1, Rounded::kState2})
        for (const std::int64_t counter : {0, 1})
          for (const std::uint64_t parameter : {0xcbf29ce484222325u, 0x84222325cbf29ce4u}) {
            const auto four = rounding_words(rounding_key(seed, update), parameter, what, counter);
            words.insert(four.begin(), four.end());
            for (std::int64_t e = 0; e < 8; ++e)
              CHECK(rounding_number(four, 8 * counter + e) ==
                    four[static_cast<std::size_t>(e / 2)] >> (e % 2 * 16));
          }
  CHECK(words.size() == 2 * 2 * 3 * 2 * 2 * 4);
}
