#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace hgt {

/// What is known of a host when the hosts of the next attempt are chosen.
struct Candidate {
  enum class State { kCalled, kHere, kAway };
  State state = State::kCalled;  ///< kCalled: no answer yet
  int workers = 0;               ///< how many it can run; 0: any number
  bool sees_run_folder = true;   ///< else it cannot run rank 0
  bool was_set_aside = false;    ///< it could not start its ranks
};

/// Whether a spare should take the host's range.
bool wants_other(const Candidate& host);

/// Ranks that run on one host, numbered one after another. A job's ranges keep their order.
struct RankRange {
  std::size_t host = 0;  ///< the host that runs them, or ran them before it was lost
  int workers = 0;       ///< 0: the number that the host reports when it answers

  bool operator==(const RankRange&) const = default;
};

/// Gives each range whose host is away, or was set aside, to the first host that is here, has room
/// for it (and sees the run folder, if it is the first range) and has no range. A host that has
/// lost its range is a spare from then on.
std::vector<RankRange> with_spares(std::vector<RankRange> ranges,
                                   const std::vector<Candidate>& hosts);

struct WorldLimits {
  std::size_t min_hosts = 0;  ///< how many must be here; 0: one for each range
  /// Whether the job can have that many ranks; empty: any number.
  std::function<bool(int ranks)> is_valid = {};
};

int count_ranks(const std::vector<RankRange>& ranges);

/// The ranks of the next attempt: the ranges whose hosts are here, from the first that can have
/// rank 0 on, minus as many ranks at the end as needed to make their number valid. Empty if too few
/// hosts are left, or if no number is valid.
std::vector<RankRange> choose_world(std::vector<RankRange> ranges,
                                    const std::vector<Candidate>& hosts, const WorldLimits& limits);

}  // namespace hgt
