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

TEST_CASE("pieces of elements cover the layout and end with units and weight decay") {
  const ParameterTable table = table_of_blocks();
  const std::vector<FlatPiece> pieces = element_pieces(table);
  check_units(table, pieces);
  CHECK(pieces.size() == 8);
  std::int64_t end = 0;
  for (const FlatPiece& piece : pieces) {
    CHECK(piece.begin == end);
    CHECK(piece.begin % ParameterTable::kAlignment == 0);
    end = piece.end;
  }
  CHECK(end == table.total);
}

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
  for (const std::vector<FlatPiece>& all : {element_pieces(table), tensor_pieces(table)})
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
