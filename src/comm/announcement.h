#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <fmt/format.h>

#include "hgtrain/base/dtype.h"
#include "hgtrain/base/error.h"

#include "parts.h"

namespace hgt {

/// What every rank announces at the start of a collective.
struct Announcement {
  enum Kind : std::uint32_t { kSum, kBroadcast, kBarrier, kReduceScatter, kAllGather };
  std::uint64_t sequence = 0;
  std::uint64_t count = 0;  ///< of values of the type
  std::uint32_t kind = kBarrier;
  std::int32_t root = 0;
  std::uint64_t parts = 0;  ///< hash of the parts
  std::uint64_t type = static_cast<std::uint64_t>(DType::kU8);
  bool operator==(const Announcement&) const = default;

  DType dtype() const { return static_cast<DType>(type); }
  const char* name() const {
    constexpr const char* kNames[] = {"sum", "broadcast", "barrier", "reduce_scatter",
                                      "all_gather"};
    if (kind != kSum) return kNames[kind];
    switch (dtype()) {
      case DType::kF64:
        return "sum_fp64";
      case DType::kBF16:
        return "sum_bf16";
      case DType::kF16:
        return "sum_fp16";
      default:
        return "sum_fp32";
    }
  }
  double bytes() const {
    return static_cast<double>(count) * static_cast<double>(size_of(dtype()));
  }
  std::string text() const {
    switch (kind) {
      case kSum:
        return fmt::format("collective {} (sum of {} {})", sequence, count, name_of(dtype()));
      case kBroadcast:
        return fmt::format("collective {} (broadcast of {} bytes from rank {})", sequence, count,
                           root);
      case kBarrier:
        return fmt::format("collective {} (barrier)", sequence);
      case kReduceScatter:
        return fmt::format("collective {} (reduce-scatter of {} {})", sequence, count,
                           name_of(dtype()));
      case kAllGather:
        return fmt::format("collective {} (all-gather of {} bytes)", sequence, count);
    }
    return fmt::format("collective {} of unknown kind {}", sequence, kind);
  }
};

/// An all-reduce of values.
inline Announcement sum_of(std::span<const std::byte> values, DType type) {
  return {.count = values.size() / size_of(type),
          .kind = Announcement::kSum,
          .type = static_cast<std::uint64_t>(type)};
}

/// A reduce-scatter of values, or an all-gather of bytes.
inline Announcement with_parts(Announcement::Kind kind, std::span<const std::byte> values,
                               DType type, std::span<const OwnedRange> parts) {
  return {.count = values.size() / size_of(type),
          .kind = kind,
          .parts = hash_of(parts),
          .type = static_cast<std::uint64_t>(type)};
}

/// Throws unless every rank in `all` is at the same collective as this one.
inline void require_agreement(const Announcement& mine, int rank,
                              std::span<const Announcement> all) {
  for (std::size_t peer = 0; peer < all.size(); ++peer) {
    if (all[peer] == mine) continue;
    const std::string theirs = all[peer].text();
    throw Error(ErrorKind::kPeer,
                theirs == mine.text()
                    ? fmt::format("ranks {} and {} disagree about the parts of {}: each rank must "
                                  "own the same on both",
                                  rank, peer, theirs)
                    : fmt::format("rank {} is at {}, but rank {} is at {}", rank, mine.text(), peer,
                                  theirs));
  }
}

}  // namespace hgt
