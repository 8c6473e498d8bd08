#include "rank_assignment.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace hgt {

bool RankAssignment::has_range(const RosterHost& host) const {
  return is_in(ranges_, host);
}

bool RankAssignment::runs_ranks(const RosterHost& host) const {
  return is_in(world_, host);
}

bool RankAssignment::is_in(const std::vector<RankRange>& ranges, const RosterHost& host) const {
  return std::ranges::any_of(ranges,
                             [&](const RankRange& range) { return &hosts_[range.host] == &host; });
}

bool RankAssignment::leads(const RosterHost& host) const {
  return &hosts_[ranges_.at(0).host] == &host;
}

bool RankAssignment::has_range_of(State state) const {
  return std::ranges::any_of(
      ranges_, [&](const RankRange& range) { return hosts_[range.host].state == state; });
}

bool RankAssignment::is_too_small(const RosterHost& spare,
                                  const std::function<bool(const RosterHost&)>& can_be_lost) const {
  if (has_range(spare)) return false;
  const bool sees_run = !spare.facts || spare.facts->missing_run_dir.empty();
  return std::ranges::none_of(ranges_, [&](const RankRange& range) {
    const RosterHost& host = hosts_[range.host];
    return can_be_lost(host) && (sees_run || !leads(host)) && spare.spec.workers >= range.workers;
  });
}

bool RankAssignment::wants_others() const {
  const std::vector<Candidate> hosts = candidates();
  return std::ranges::any_of(
      ranges_, [&](const RankRange& range) { return wants_other(hosts[range.host]); });
}

std::vector<std::string> RankAssignment::assign_spares() {
  const auto before = std::exchange(ranges_, with_spares(ranges_, candidates()));
  std::vector<std::string> notices;
  for (std::size_t i = 0; i < ranges_.size(); ++i)
    if (ranges_[i].host != before[i].host)
      notices.push_back(fmt::format("host {} takes the ranks of host {}",
                                    hosts_[ranges_[i].host].spec.name,
                                    hosts_[before[i].host].spec.name));
  return notices;
}

void RankAssignment::count_workers() {
  for (RankRange& range : ranges_)
    if (range.workers == 0) range.workers = hosts_[range.host].spec.workers;
}

bool RankAssignment::choose() {
  world_ = choose_world(ranges_, candidates(), limits_);
  return !world_.empty();
}

bool RankAssignment::could_run() const {
  std::vector<Candidate> hosts = candidates();
  for (Candidate& host : hosts)
    if (host.state == State::kCalled) host.state = State::kAway;
  return !choose_world(with_spares(ranges_, hosts), hosts, limits_).empty();
}

bool RankAssignment::can_grow() const {
  if (runs_all()) return false;
  const std::vector<Candidate> hosts = candidates();
  return count_ranks(choose_world(with_spares(ranges_, hosts), hosts, limits_)) >
         count_ranks(world_);
}

std::vector<Candidate> RankAssignment::candidates() const {
  std::vector<Candidate> out;
  for (const RosterHost& host : hosts_)
    out.push_back({host.state, host.spec.workers,
                   !host.facts || host.facts->missing_run_dir.empty(), host.was_set_aside});
  return out;
}

}  // namespace hgt
