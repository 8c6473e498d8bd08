#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

/// What every rank announces at the start of a collective.
struct Announcement {
  enum Kind : std::uint32_t { kSumF32, kSumF64, kBroadcast, kBarrier };
  std::uint64_t sequence = 0;
  std::uint64_t count = 0;
  std::uint32_t kind = kBarrier;
  std::int32_t root = 0;
  bool operator==(const Announcement&) const = default;

  const char* name() const {
    constexpr const char* kNames[] = {"sum_fp32", "sum_fp64", "broadcast", "barrier"};
    return kNames[kind];
  }
  double bytes() const {
    return static_cast<double>(count) * (kind == kSumF32 ? 4 : kind == kSumF64 ? 8 : 1);
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
    }
    return fmt::format("collective {} of unknown kind {}", sequence, kind);
  }
};

/// Throws unless every rank in `all` is at the same collective as this one.
inline void require_agreement(const Announcement& mine, int rank,
                              std::span<const Announcement> all) {
  for (std::size_t peer = 0; peer < all.size(); ++peer)
    if (all[peer] != mine)
      throw Error(ErrorKind::kPeer, fmt::format("rank {} is at {}, but rank {} is at {}", rank,
                                                mine.text(), peer, all[peer].text()));
}

}  // namespace hgt
