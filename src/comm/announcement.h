#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

/// What every rank announces at the start of a collective.
struct Announcement {
  enum Kind : std::uint32_t { kSumF32, kSumF64, kBroadcast, kBarrier, kReduceScatter, kAllGather };
  std::uint64_t sequence = 0;
  std::uint64_t count = 0;
  std::uint32_t kind = kBarrier;
  std::int32_t root = 0;
  std::uint64_t parts = 0;  ///< their hash
  bool operator==(const Announcement&) const = default;

  const char* name() const {
    constexpr const char* kNames[] = {"sum_fp32", "sum_fp64",       "broadcast",
                                      "barrier",  "reduce_scatter", "all_gather"};
    return kNames[kind];
  }
  double bytes() const {
    const bool single = kind == kSumF32 || kind == kReduceScatter;
    return static_cast<double>(count) * (single ? 4 : kind == kSumF64 ? 8 : 1);
  }
  std::string text() const {
    switch (kind) {
      case kSumF32:
        return fmt::format("collective {} (sum of {} fp32)", sequence, count);
      case kSumF64:
        return fmt::format("collective {} (sum of {} fp64)", sequence, count);
      case kBroadcast:
        return fmt::format("collective {} (broadcast of {} bytes from rank {})", sequence, count,
                           root);
      case kBarrier:
        return fmt::format("collective {} (barrier)", sequence);
      case kReduceScatter:
        return fmt::format("collective {} (reduce-scatter of {} fp32)", sequence, count);
      case kAllGather:
        return fmt::format("collective {} (all-gather of {} bytes)", sequence, count);
    }
    return fmt::format("collective {} of unknown kind {}", sequence, kind);
  }
};

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
