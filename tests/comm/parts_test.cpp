#include "parts.h"

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("a hash of parts depends on sizes and owners") {
  const std::vector<OwnedRange> parts{{{0, 4}, 0}, {{4, 8}, 1}}, moved{{{0, 5}, 0}, {{5, 8}, 1}},
      swapped{{{0, 4}, 1}, {{4, 8}, 0}};
  CHECK(hash_of(parts) == hash_of(std::vector(parts)));
  CHECK(hash_of(parts) != hash_of(moved));
  CHECK(hash_of(parts) != hash_of(swapped));
}

TEST_CASE("what each rank owns is taken in turns") {
  const std::vector<OwnedRange> parts{{{0, 4}, 1}, {{4, 4}, 0}, {{4, 7}, 2}, {{7, 12}, 1}};
  PartsLeft left(parts, 3);
  CHECK(left.turns(3) == 3);
  CHECK(left.turns(9) == 1);
  CHECK(left.take(0, 3).empty());
  CHECK(left.take(1, 3) == std::vector<Range>{{0, 3}});
  CHECK(left.take(1, 3) == std::vector<Range>{{3, 4}, {7, 9}});
  CHECK(left.take(2, 3) == std::vector<Range>{{4, 7}});
  CHECK(left.turns(3) == 1);
  CHECK(left.take(1, 9) == std::vector<Range>{{9, 12}});
  CHECK(left.turns(1) == 0);
}

TEST_CASE("the next elements of all ranks are packed in the order of the ranks") {
  const std::vector<OwnedRange> parts{{{0, 4}, 1}, {{4, 7}, 0}, {{7, 12}, 1}};
  PartsLeft left(parts, 2);
  const std::vector<PackedPart> first = left.take_packed(5);
  REQUIRE(first.size() == 3);
  CHECK((first[0].elements == Range{4, 7} && first[0].packed == OwnedRange{{0, 3}, 0}));
  CHECK((first[1].elements == Range{0, 4} && first[1].packed == OwnedRange{{3, 7}, 1}));
  CHECK((first[2].elements == Range{7, 8} && first[2].packed == OwnedRange{{7, 8}, 1}));
  const std::vector<PackedPart> second = left.take_packed(5);
  REQUIRE(second.size() == 1);
  CHECK((second[0].elements == Range{8, 12} && second[0].packed == OwnedRange{{0, 4}, 1}));
}
