#include "hgtrain/base/xxh3.h"

#include <string_view>

#include <catch2/catch.hpp>

using namespace hgt;

namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

TEST_CASE("a hash is XXH3's, however the bytes come") {
  CHECK(xxh3("") == 0x2d06800538d394c2);  // the value of the reference implementation
  Xxh3 hash;
  hash.update(bytes_of("piece "));
  CHECK(hash.digest() == xxh3("piece "));
  hash.update(bytes_of("by piece"));
  CHECK(hash.digest() == xxh3("piece by piece"));
}
