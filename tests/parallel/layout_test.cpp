#include "hgtrain/parallel/layout.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/config/parallelism_config.h"
#include "hgtrain/parallel/range.h"

using namespace hgt;

TEST_CASE("every rank has one place, and tensor-parallel ranks are neighbours") {
  const Layout layout{.pipeline_size = 2, .data_size = 3, .tensor_size = 2};
  CHECK(layout.world_size() == 12);
  for (int rank = 0; rank < 12; ++rank) CHECK(layout.rank_of(layout.coordinates_of(rank)) == rank);
  CHECK(layout.coordinates_of(7) == Coordinates{.pipeline = 1, .data = 0, .tensor = 1});
}

TEST_CASE("a rank's place names the axes that have more than one rank") {
  const Layout layout{.pipeline_size = 2, .data_size = 3, .tensor_size = 2};
  CHECK(layout.position_text(7) == "stage 1, data rank 0, tensor rank 1");
  CHECK(Layout{.data_size = 2, .context_size = 2}.position_text(3) ==
        "data rank 1, context rank 1");
  CHECK(Layout{.tensor_size = 2}.position_text(1) == "tensor rank 1");
  CHECK(Layout{.data_size = 4}.position_text(3).empty());  // its number says it
}

TEST_CASE("context ranks lie between tensor and data ranks, and have the same part of the model") {
  const Layout layout{.pipeline_size = 2, .data_size = 2, .context_size = 3, .tensor_size = 2};
  CHECK(layout.world_size() == 24);
  for (int rank = 0; rank < 24; ++rank) CHECK(layout.rank_of(layout.coordinates_of(rank)) == rank);
  const Coordinates at = layout.coordinates_of(23 - 1 - 2);
  CHECK(at == Coordinates{.pipeline = 1, .data = 1, .context = 1, .tensor = 0});
  CHECK(layout.group_size() == 6);
  CHECK(layout.group_rank(at) == 4);
  CHECK(make_layout({.context_parallel_size = 2}, 6).data_size == 3);
}

TEST_CASE("data parallelism takes the ranks that the other axes leave") {
  const Layout layout = make_layout({.data_parallel_size = 0, .tensor_parallel_size = 2}, 8);
  CHECK(layout.data_size == 4);
  CHECK(layout.tensor_size == 2);
}

TEST_CASE("a layout that does not fit the world is refused with its factors") {
  CHECK_THROWS_WITH(
      make_layout({.data_parallel_size = 3}, 4),
      "4 workers cannot be laid out as data x context x tensor x pipeline = 3 x 1 x 1 x 1");
  CHECK_THROWS_WITH(
      make_layout({.context_parallel_size = 3}, 4),
      "4 workers cannot be laid out as data x context x tensor x pipeline = 1 x 3 x 1 x 1");
  CHECK_THROWS_AS(make_layout({.tensor_parallel_size = 3}, 2), Error);
  CHECK_THROWS_AS(make_layout({.tensor_parallel_size = 0}, 4), Error);
  CHECK_THROWS_AS(make_layout({.tensor_parallel_size = std::int64_t{1} << 40}, 4), Error);
}

TEST_CASE("even ranges cover everything once and differ by at most one") {
  for (std::int64_t total : {0, 1, 5, 12, 13})
    for (std::int64_t parts : {1, 2, 3, 7}) {
      std::int64_t next = 0;
      for (std::int64_t part = 0; part < parts; ++part) {
        const Range range = even_range(total, parts, part);
        CHECK(range.begin == next);
        CHECK(range.size() - total / parts <= 1);
        CHECK(range.size() >= total / parts);
        next = range.end;
      }
      CHECK(next == total);
    }
}
