#pragma once

#include <algorithm>

namespace hgt {

/// What a rank uses, in doubles because sums exchange it.
struct RankUsage {
  double mem_bytes = 0;
  double mem_peak_bytes = 0;
  double comm_ms = 0;     ///< how long computing waited for communication in a step
  double sent_bytes = 0;  ///< in a step; see Communicator
  bool operator==(const RankUsage&) const = default;
};

/// The larger one of each value.
inline RankUsage largest(const RankUsage& a, const RankUsage& b) {
  return {std::max(a.mem_bytes, b.mem_bytes), std::max(a.mem_peak_bytes, b.mem_peak_bytes),
          std::max(a.comm_ms, b.comm_ms), std::max(a.sent_bytes, b.sent_bytes)};
}

}  // namespace hgt
