#include "hgtrain/parallel/context_split.h"

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("context ranks share a sequence's tokens, and see about as many pairs") {
  for (const int size : {1, 2, 3, 4}) {
    const std::int64_t length = 24 * size;
    std::vector<int> owner(static_cast<std::size_t>(length), -1);
    std::vector<std::int64_t> pairs;
    for (int rank = 0; rank < size; ++rank) {
      const SampleRows rows = context_rows(length, size, rank);
      CHECK(rows.length == length / size);
      std::int64_t seen = 0;
      for (std::int64_t t = 0; t < rows.length; ++t) {
        int& of = owner[static_cast<std::size_t>(rows.token(t))];
        CHECK(of == -1);
        of = rank;
        seen += rows.token(t) + 1;
      }
      pairs.push_back(seen);
    }
    for (const std::int64_t seen : pairs) CHECK(seen == pairs.front());
    if (size == 1) continue;
    const std::vector<OwnedRange> owners = context_owners(2, length, size, 8);
    CHECK(owners.back().elements.end == 2 * length * 8);
    for (const OwnedRange& part : owners)
      for (std::int64_t byte = part.elements.begin; byte < part.elements.end; ++byte)
        REQUIRE(part.rank == owner[static_cast<std::size_t>(byte / 8 % length)]);
  }
}
