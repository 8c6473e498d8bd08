#include "hgtrain/base/philox_lanes.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/philox.h"

using namespace hgt;

TEST_CASE("philox in lanes gives the words of philox, also if the index passes 2^32") {
  const std::uint64_t key = 0x0123456789abcdef, stream = 0xfedcba9876543210;
  for (const std::uint64_t first :
       {std::uint64_t{0}, std::uint64_t{0xfffffff8}, ~std::uint64_t{7}}) {
    std::uint32_t words[kPhiloxWords];
    philox_lanes(key, stream, first, words);
    for (std::int64_t i = 0; i < kPhiloxLanes; ++i) {
      const auto expected = philox(key, stream, first + static_cast<std::uint64_t>(i));
      for (std::size_t w = 0; w < 4; ++w)
        CHECK(words[w * kPhiloxLanes + static_cast<std::size_t>(i)] == expected[w]);
    }
  }
}
