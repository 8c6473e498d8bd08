#include "fp32_window.h"

#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/half.h"

using namespace hgt;

namespace {

FlatPiece piece_at(std::int64_t begin, std::int64_t end) {
  return {
      .begin = begin, .end = end, .local = 0, .in_shard = 0, .number = 0, .tensor = 0, .decay = 0};
}

}  // namespace

TEST_CASE("a window of fp32 is the buffer itself") {
  std::vector<float> flat(100, 1.0f);
  const FlatPiece piece = piece_at(64, 100);
  const Fp32Window part(Tensor(flat.data() + 64, {36}), piece);
  part.data()[1] = 3.14159f;
  part.write_back(1, Rounded::kParameter);
  CHECK(flat[65] == 3.14159f);
}

TEST_CASE(
    "a window of bf16 is written back rounded by the numbers that its elements have in the whole "
    "parameter, and nothing else is") {
  constexpr std::int64_t kBegin = 64, kEnd = 64 + 1001;
  constexpr std::uint64_t kKey = 77;
  FlatPiece piece = piece_at(kBegin, kEnd);
  piece.stream = 0xfedcba9876543210;
  piece.origin = 59;
  const bool cut = GENERATE(false, true);
  if (cut) piece.chunk = 37, piece.period = 111, piece.shift = 74;
  std::vector<BFloat16> flat(kEnd + 50, BFloat16(2.0f));
  const Fp32Window part(Tensor(flat.data() + kBegin, {kEnd - kBegin}, DType::kBF16), piece);
  for (std::int64_t i = 0; i < kEnd - kBegin; ++i) {
    REQUIRE(part.data()[i] == 2.0f);
    part.data()[i] = std::sin(static_cast<float>(i));
  }
  CHECK(flat[kBegin] == 2.0f);
  part.write_back(kKey, Rounded::kState2);
  for (std::int64_t at = kBegin; at < kEnd; ++at) {
    const std::int64_t local = at - 59, e = cut ? local / 37 * 111 + 74 + local % 37 : local;
    const auto words = rounding_words(kKey, piece.stream, Rounded::kState2, e / 8);
    const std::uint32_t number = words[static_cast<std::size_t>(e % 8 / 2)] >> (e % 2 * 16);
    REQUIRE(flat[static_cast<std::size_t>(at)] ==
            round_stochastically(std::sin(static_cast<float>(at - kBegin)), number));
  }
  for (std::size_t e = 0; e < flat.size(); ++e)
    if (e < kBegin || e >= kEnd) REQUIRE(flat[e] == 2.0f);
}

TEST_CASE("a window without a tensor is null") {
  const FlatPiece piece = piece_at(0, 8);
  const Fp32Window part({}, piece);
  CHECK(part.data() == nullptr);
  part.write_back(1, Rounded::kState1);
}
