#include "hgtrain/base/philox.h"

#include <catch2/catch.hpp>

using namespace hgt;

// Known answers of the Random123 distribution (kat_vectors, philox4x32 10 rounds).
TEST_CASE("philox gives the published known answers") {
  using A4 = std::array<std::uint32_t, 4>;
  CHECK(philox(std::array<std::uint32_t, 2>{0, 0}, A4{0, 0, 0, 0}) ==
        A4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox(std::array<std::uint32_t, 2>{0xffffffff, 0xffffffff},
               A4{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}) ==
        A4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
}

TEST_CASE("uniform numbers stay below one") {
  CHECK(uniform01(0xffffffffu) < 1.0f);
  CHECK(uniform01(0) == 0.0f);
}
