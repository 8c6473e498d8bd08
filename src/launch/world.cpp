#include "world.h"

#include <algorithm>

namespace hgt {
namespace {

using State = Candidate::State;

bool has_room(const Candidate& host, const RankRange& range) {
  return host.workers == 0 || host.workers >= range.workers;
}

}  // namespace

std::vector<RankRange> with_spares(std::vector<RankRange> ranges,
                                   const std::vector<Candidate>& hosts) {
  const auto is_free = [&](std::size_t host) {
    return std::ranges::find(ranges, host, &RankRange::host) == ranges.end();
  };
  for (RankRange& range : ranges) {
    if (hosts[range.host].state != State::kAway) continue;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      if (hosts[i].state != State::kHere || !is_free(i) || !has_room(hosts[i], range)) continue;
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
  if (ranges.size() < enough || ranges.empty() || !hosts[ranges[0].host].sees_run_folder) return {};
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
