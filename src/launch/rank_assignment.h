#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "roster_host.h"
#include "world.h"

namespace hgt {

/// Which hosts run the ranks of a job, attempt after attempt. Plain data, no connections.
class RankAssignment {
 public:
  using State = Candidate::State;

  /// Refers to `hosts`, whose states decide.
  explicit RankAssignment(const std::vector<RosterHost>& hosts) : hosts_(hosts) {}

  void limit(WorldLimits limits) { limits_ = std::move(limits); }
  /// Adds ranks after the others; 0 workers: as many as the host reports when it answers.
  void add_range(std::size_t host, int workers) { ranges_.push_back({host, workers}); }

  /// All ranges, and those that run in this attempt.
  const std::vector<RankRange>& ranges() const { return ranges_; }
  const std::vector<RankRange>& world() const { return world_; }
  bool runs_all() const { return world_ == ranges_; }
  /// Whether the host has a range; without one, it is a spare.
  bool has_range(const RosterHost& host) const;
  /// Whether the host has ranks in this attempt.
  bool runs_ranks(const RosterHost& host) const;
  /// Whether the host has the first range.
  bool leads(const RosterHost& host) const;
  /// Whether a host with a range is in this state.
  bool has_range_of(State state) const;
  /// Whether the host is a spare with fewer workers than each that `can_be_lost`.
  bool is_too_small(const RosterHost& spare,
                    const std::function<bool(const RosterHost&)>& can_be_lost) const;
  /// Whether another host should take a range, if there is one.
  bool wants_others() const;

  /// Spare hosts take the ranks of hosts that are away. Returns what to tell the user.
  std::vector<std::string> assign_spares();
  /// Takes the numbers of workers that hosts have reported since.
  void count_workers();
  /// Chooses the ranks of the next attempt. False: it is impossible with the hosts that are here.
  bool choose();

  /// Whether the hosts that have answered are enough, although others have not.
  bool could_run() const;
  /// Whether another attempt would have more ranks than this one.
  bool can_grow() const;

 private:
  bool is_in(const std::vector<RankRange>& ranges, const RosterHost& host) const;
  std::vector<Candidate> candidates() const;

  const std::vector<RosterHost>& hosts_;
  std::vector<RankRange> ranges_;
  std::vector<RankRange> world_;
  WorldLimits limits_;
};

}  // namespace hgt
