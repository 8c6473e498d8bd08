#include "world.h"

#include <algorithm>

namespace hgt {
namespace {

using State = Candidate::State;

bool has_room(const Candidate& host, const RankRange& range) {
  return host.workers == 0 || host.workers >= range.workers;
}

}  // namespace

bool wants_other(const Candidate& host) {
  return host.state == State::kAway || host.was_set_aside;
}

std::vector<RankRange> with_spares(std::vector<RankRange> ranges,
                                   const std::vector<Candidate>& hosts) {
  const auto is_free = [&](std::size_t host) {
    return std::ranges::find(ranges, host, &RankRange::host) == ranges.end();
  };
  for (RankRange& range : ranges) {
    if (!wants_other(hosts[range.host])) continue;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      if (hosts[i].state != State::kHere || !is_free(i) || !has_room(hosts[i], range)) continue;
      if (hosts[i].was_set_aside && hosts[range.host].state == State::kHere) continue;
      if (&range == &ranges[0] && !hosts[i].sees_run_folder) continue;
      range.host = i;
      break;
    }
  }
  return ranges;
}

int count_ranks(const std::vector<RankRange>& ranges) {
  int out = 0;
  for (const RankRange& range : ranges) out += range.workers;
  return out;
}

std::vector<RankRange> choose_world(std::vector<RankRange> ranges,
                                    const std::vector<Candidate>& hosts,
                                    const WorldLimits& limits) {
  const std::size_t enough = limits.min_hosts == 0 ? ranges.size() : limits.min_hosts;
  std::erase_if(ranges,
                [&](const RankRange& range) { return hosts[range.host].state != State::kHere; });
  ranges.erase(ranges.begin(), std::ranges::find_if(ranges, [&](const RankRange& range) {
                 return hosts[range.host].sees_run_folder;
               }));
  if (ranges.size() < enough) return {};
  int ranks = count_ranks(ranges);
  while (ranks > 0 && limits.is_valid && !limits.is_valid(ranks)) --ranks;
  for (RankRange& range : ranges) {
    range.workers = std::min(range.workers, ranks);
    ranks -= range.workers;
  }
  std::erase_if(ranges, [](const RankRange& range) { return range.workers == 0; });
  return ranges;
}

}  // namespace hgt
