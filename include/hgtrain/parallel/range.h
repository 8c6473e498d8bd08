#pragma once

#include <cstdint>

namespace hgt {

/// Half-open range of indices.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// Part `part` of [0, total), cut into `parts` contiguous ranges whose sizes differ by at most one,
/// the larger ones first. It cuts shards of buffers and shares of a step's micro-batches.
constexpr Range even_range(std::int64_t total, std::int64_t parts, std::int64_t part) {
  const std::int64_t size = total / parts, larger = total % parts;
  const std::int64_t begin = part * size + (part < larger ? part : larger);
  return {begin, begin + size + (part < larger ? 1 : 0)};
}

}  // namespace hgt
