#include "hgtrain/optim/pieces.h"

#include <algorithm>

#include "device_copy.h"

namespace hgt {
static_assert(FlatPiece::kMaxElements == Sharding::kChunk);

std::vector<FlatPiece> tensor_pieces(const ParameterTable& table, TensorRank at) {
  std::vector<FlatPiece> out;
  std::int32_t tensor = 0;
  for (const Parameter& p : table.parameters) {
    const Placement placement = p.placement(at);
    const std::int64_t first = table.block(p.block).begin, end = p.offset + p.numel;
    FlatPiece piece{.begin = p.offset,
                    .end = 0,
                    .local = 0,
                    .in_shard = 0,
                    .number = 0,
                    .tensor = tensor++,
                    .decay = p.decay ? 1 : 0,
                    .stream = p.random_stream(),
                    .origin = p.offset,
                    .chunk = placement.chunk,
                    .period = placement.period,
                    .shift = placement.begin};
    for (; piece.begin < end; piece.begin = piece.end) {
      const std::int64_t chunk = (piece.begin - first) / Sharding::kChunk;
      piece.end = std::min(first + (chunk + 1) * Sharding::kChunk, end);
      piece.local = piece.in_shard = piece.begin;
      piece.number = std::ssize(out);
      out.push_back(piece);
    }
  }
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
