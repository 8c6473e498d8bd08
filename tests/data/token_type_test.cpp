#include <cmath>

#include <catch2/catch.hpp>

#include "hgtrain/data/token_file.h"

using namespace hgt;

namespace {
/// Whether `value` is taken as an id below `limit`.
template <class T>
bool takes(TokenType type, T value, std::int64_t limit = std::int64_t{1} << 31) {
  std::vector<std::int32_t> one(1);
  return convert_tokens(type, std::as_bytes(std::span(&value, 1)), one, limit) == 1 &&
         static_cast<T>(one[0]) == value;
}
}  // namespace

TEST_CASE("whole numbers below the limit are ids, whatever their type") {
  CHECK(takes(TokenType::kUint8, std::uint8_t{255}));
  CHECK(takes(TokenType::kInt8, std::int8_t{127}));
  CHECK(takes(TokenType::kUint16, std::uint16_t{65535}));
  CHECK(takes(TokenType::kInt16, std::int16_t{32767}));
  CHECK(takes(TokenType::kUint32, std::uint32_t{0x7fffffff}));
  CHECK(takes(TokenType::kInt32, 0x7fffffff));
  CHECK(takes(TokenType::kInt64, std::int64_t{0x7fffffff}));
  CHECK(takes(TokenType::kFloat32, 50256.0f));
  CHECK(takes(TokenType::kFloat64, 2147483647.0));
}

TEST_CASE("anything else is refused") {
  CHECK_FALSE(takes(TokenType::kUint16, std::uint16_t{300}, 300));
  CHECK_FALSE(takes(TokenType::kInt8, std::int8_t{-1}));
  CHECK_FALSE(takes(TokenType::kInt32, -1));
  CHECK_FALSE(takes(TokenType::kUint32, std::uint32_t{1} << 31));
  CHECK_FALSE(takes(TokenType::kInt64, std::int64_t{1} << 32));
  CHECK_FALSE(takes(TokenType::kFloat32, 1.5f));
  CHECK_FALSE(takes(TokenType::kFloat64, std::nan("")));
  CHECK_FALSE(takes(TokenType::kFloat64, 1e300));
}

TEST_CASE("the error names the place of the first bad id") {
  const std::vector<std::uint16_t> values = {1, 2, 9, 3};
  std::vector<std::int32_t> tokens(4);
  CHECK(convert_tokens(TokenType::kUint16, std::as_bytes(std::span(values)), tokens, 9) == 2);
}

TEST_CASE("each token type has a size and a name") {
  CHECK(size_of(TokenType::kFloat64) == 8);
  CHECK(size_of(TokenType::kInt8) == 1);
  CHECK(name_of(TokenType::kUint16) == "uint16");
  CHECK(name_of(TokenType::kUint32) == "uint32");
}
