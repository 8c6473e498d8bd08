#include "hgtrain/optim/pieces.h"

#include <algorithm>

#include "device_copy.h"

namespace hgt {
namespace {

static_assert(FlatPiece::kMaxElements == Sharding::kChunk);

/// Adds the pieces of elements that lie in one block.
void cut(const Range& block, const Range& elements, std::int64_t tensor, bool decay,
         std::vector<FlatPiece>& out) {
  FlatPiece piece{.begin = elements.begin,
                  .end = 0,
                  .local = 0,
                  .in_shard = 0,
                  .number = 0,
                  .tensor = static_cast<std::int32_t>(tensor),
                  .decay = decay ? 1 : 0};
  for (; piece.begin < elements.end; piece.begin = piece.end) {
    const std::int64_t chunk = (piece.begin - block.begin) / Sharding::kChunk;
    piece.end = std::min(block.begin + (chunk + 1) * Sharding::kChunk, elements.end);
    piece.local = piece.in_shard = piece.begin;
    piece.number = std::ssize(out);
    out.push_back(piece);
  }
}

}  // namespace

std::vector<FlatPiece> element_pieces(const ParameterTable& table) {
  const std::vector<Parameter>& all = table.parameters;
  std::vector<FlatPiece> out;
  for (std::size_t first = 0, next = 0; first < all.size(); first = next) {
    while (next < all.size() && all[next].block == all[first].block &&
           all[next].decay == all[first].decay)
      ++next;
    const Range elements{all[first].offset, next < all.size() ? all[next].offset : table.total};
    cut(table.block(all[first].block), elements, static_cast<std::int64_t>(first), all[first].decay,
        out);
  }
  return out;
}

std::vector<FlatPiece> tensor_pieces(const ParameterTable& table) {
  std::vector<FlatPiece> out;
  std::int64_t tensor = 0;
  for (const Parameter& p : table.parameters)
    cut(table.block(p.block), {p.offset, p.offset + p.numel}, tensor++, p.decay, out);
  return out;
}

std::vector<FlatPiece> first_copies(std::vector<FlatPiece> pieces, const ParameterTable& table,
                                    TensorRank at) {
  std::erase_if(pieces, [&](const FlatPiece& piece) {
    return !table.parameters[static_cast<std::size_t>(piece.tensor)].split.is_first(at);
  });
  return pieces;
}

std::vector<FlatPiece> pieces_in(std::span<const FlatPiece> pieces, std::span<const Slice> slices) {
  std::vector<FlatPiece> out;
  for (const Slice& slice : slices) {
    const Range elements = slice.elements;
    const auto begin =
        std::partition_point(pieces.begin(), pieces.end(),
                             [&](const FlatPiece& piece) { return piece.begin < elements.begin; });
    for (auto piece = begin; piece != pieces.end() && piece->begin < elements.end; ++piece) {
      const Slice part = slice.part({piece->begin, piece->end});
      out.push_back(*piece);
      out.back().local = part.local;
      out.back().in_shard = part.in_shard;
    }
  }
  return out;
}

Pieces::Pieces(std::span<const FlatPiece> all, std::span<const Slice> slices, Stream stream)
    : total_(std::ssize(all)) {
  const std::vector<FlatPiece> own = pieces_in(all, slices);
  for (const FlatPiece& piece : own) own_elements_ += piece.end - piece.begin;
  own_ = device_copy("pieces of the flat buffers", std::span(own), stream);
}

std::span<const FlatPiece> Pieces::own_in(Range elements) const {
  const std::span<const FlatPiece> all = own();
  const auto begins_at = [&](std::int64_t element) {
    return std::partition_point(all.begin(), all.end(),
                                [&](const FlatPiece& piece) { return piece.begin < element; });
  };
  return {begins_at(elements.begin), begins_at(elements.end)};
}

}  // namespace hgt
