#include "hgtrain/optim/pieces.h"

#include <catch2/catch.hpp>

#include "sharded_runs.h"

using namespace hgt;

namespace {

void check_units(const ParameterTable& table, const std::vector<FlatPiece>& pieces) {
  std::int64_t number = 0, end = 0;
  for (const FlatPiece& piece : pieces) {
    CHECK(piece.number == number++);
    CHECK(piece.begin >= end);
    CHECK(piece.local == piece.begin);
    CHECK(piece.in_shard == piece.begin);
    end = piece.end;
    const Parameter& p = table.parameters[static_cast<std::size_t>(piece.tensor)];
    CHECK(piece.decay == (p.decay ? 1 : 0));
    const Range block = table.block(p.block);
    CHECK((piece.begin - block.begin) / Sharding::kChunk ==
          (piece.end - 1 - block.begin) / Sharding::kChunk);
    CHECK(piece.end <= block.end);
  }
}

}  // namespace

TEST_CASE("pieces of tensors cover the tensors and end with units") {
  const ParameterTable table = table_of_blocks();
  const std::vector<FlatPiece> pieces = tensor_pieces(table);
  check_units(table, pieces);
  std::vector<std::int64_t> elements(table.parameters.size());
  for (const FlatPiece& piece : pieces) {
    const auto tensor = static_cast<std::size_t>(piece.tensor);
    CHECK(piece.begin == table.parameters[tensor].offset + elements[tensor]);
    elements[tensor] += piece.end - piece.begin;
  }
  for (std::size_t i = 0; i < elements.size(); ++i) CHECK(elements[i] == table.parameters[i].numel);
}

TEST_CASE("each piece has one owner, in whose shard it has a place") {
  const ParameterTable table = table_of_blocks();
  ThreadPool pool(1);
  const std::vector<FlatPiece> all = tensor_pieces(table);
  for (const std::vector<double>& shares : some_shares()) {
    const Sharding sharding(table.blocks(), shares);
    std::vector<int> owners(all.size(), 0);
    for (int rank = 0; rank < sharding.ranks(); ++rank) {
      const Pieces pieces(all, sharding.slices(rank), pool);
      CHECK(pieces.total() == std::ssize(all));
      std::int64_t end = 0;
      for (const FlatPiece& piece : pieces.own()) {
        CHECK(piece.begin == all[static_cast<std::size_t>(piece.number)].begin);
        ++owners[static_cast<std::size_t>(piece.number)];
        CHECK(piece.local == piece.begin);
        CHECK(piece.in_shard >= end);
        end = piece.in_shard + piece.end - piece.begin;
      }
      CHECK(end <= sharding.shard_elements(rank));
      CHECK(pieces.own_elements() <= sharding.shard_elements(rank));
    }
    CHECK(owners == std::vector<int>(all.size(), 1));
  }
}

TEST_CASE("of what several tensor ranks have, the pieces of the first one count") {
  ParameterTable table = table_of_blocks();
  table.parameters[0].split.parts = 4;  // each rank has its own
  table.parameters[3].split.parts = 2;  // ranks 0 and 1 have the same, and 2 and 3
  const std::vector<FlatPiece> all = tensor_pieces(table);
  std::vector<int> ranks(table.parameters.size(), 0);
  for (int rank = 0; rank < 4; ++rank)
    for (const FlatPiece& piece : first_copies(all, table, {rank, 4})) {
      CHECK(piece == all[static_cast<std::size_t>(piece.number)]);
      if (piece.begin == table.parameters[static_cast<std::size_t>(piece.tensor)].offset)
        ++ranks[static_cast<std::size_t>(piece.tensor)];
    }
  CHECK(ranks == std::vector<int>{4, 1, 1, 2, 1, 1, 1});
  CHECK(first_copies(all, table, {}) == all);
}

TEST_CASE("a piece knows the places of its elements in the whole parameter") {
  for (const Split split : {Split{}, Split{0, 1, 2}, Split{1, 1, 2}, Split{1, 3, 2}}) {
    const ParameterTable table = table_of_part(1200, 42, split);
    const Parameter& p = table.parameters[0];
    for (const int rank : {0, 1}) {
      const std::vector<FlatPiece> pieces = tensor_pieces(table, {rank, 2});
      CHECK(pieces.size() > 1);
      for (const FlatPiece& piece : pieces) {
        CHECK(piece.stream == p.random_stream());
        std::int64_t element = 0;
        WholeElement next(piece, 0);
        const auto visit = [&](const Placement::Run& run) {
          for (std::int64_t i = 0; i < run.size; ++i, ++element) {
            REQUIRE(WholeElement(piece, element).index == run.whole + i);
            REQUIRE(next.index == run.whole + i);
            REQUIRE(next.run >= run.size - i);
            next.advance(piece, 1);
          }
        };
        p.placement({rank, 2}).for_each_run({piece.begin, piece.end}, visit);
        CHECK(element == piece.end - piece.begin);
      }
    }
  }
}
