#include "parts.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/xxh3.h"

namespace hgt {

void require_parts(std::span<const OwnedRange> parts, std::size_t size, int ranks) {
  std::int64_t end = 0;
  for (const auto& [elements, rank] : parts) {
    if (elements.begin != end || elements.end < elements.begin || rank < 0 || rank >= ranks)
      throw Error(ErrorKind::kInternal,
                  fmt::format("part [{}, {}) of rank {} does not continue the parts before it, "
                              "which end at {}, in a group of {} ranks",
                              elements.begin, elements.end, rank, end, ranks));
    end = elements.end;
  }
  if (end != static_cast<std::int64_t>(size))
    throw Error(ErrorKind::kInternal,
                fmt::format("the parts end at {}, but the collective has {} elements", end, size));
}

std::uint64_t hash_of(std::span<const OwnedRange> parts) {
  std::uint64_t hash = 0;
  for (const auto& [elements, rank] : parts) {
    const std::array<std::int64_t, 3> part{elements.begin, elements.end, rank};
    hash = xxh3(std::as_bytes(std::span(part)), hash);
  }
  return hash;
}

std::uint64_t elements_of(std::span<const OwnedRange> parts, int rank) {
  std::int64_t sum = 0;
  for (const auto& [elements, owner] : parts) sum += owner == rank ? elements.size() : 0;
  return static_cast<std::uint64_t>(sum);
}

PartsLeft::PartsLeft(std::span<const OwnedRange> parts, int ranks)
    : ranks_(static_cast<std::size_t>(ranks)) {
  for (const auto& [elements, rank] : parts)
    if (elements.size() > 0) ranks_[static_cast<std::size_t>(rank)].parts.push_back(elements);
}

std::int64_t PartsLeft::turns(std::int64_t limit) const {
  std::int64_t turns = 0;
  for (const Rank& rank : ranks_) {
    std::int64_t elements = 0;
    for (std::size_t i = rank.next; i < rank.parts.size(); ++i) elements += rank.parts[i].size();
    turns = std::max(turns, (elements + limit - 1) / limit);
  }
  return turns;
}

std::vector<Range> PartsLeft::take(int rank, std::int64_t limit) {
  auto& [parts, next] = ranks_[static_cast<std::size_t>(rank)];
  std::vector<Range> taken;
  while (limit > 0 && next < parts.size()) {
    Range& part = parts[next];
    taken.push_back({part.begin, std::min(part.begin + limit, part.end)});
    part.begin = taken.back().end;
    limit -= taken.back().size();
    if (part.size() == 0) ++next;
  }
  return taken;
}

std::vector<PackedPart> PartsLeft::take_packed(std::int64_t limit) {
  std::vector<PackedPart> taken;
  std::int64_t end = 0;
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank)
    for (const Range& elements : take(rank, limit)) {
      taken.push_back({elements, {{end, end + elements.size()}, rank}});
      end += elements.size();
    }
  return taken;
}

}  // namespace hgt
