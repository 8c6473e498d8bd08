#include "world.h"

#include <algorithm>

namespace hgt {
namespace {

using State = Candidate::State;

bool has_room(const Candidate& host, const RankBlock& block) {
  return host.workers == 0 || host.workers >= block.workers;
}

}  // namespace

std::vector<RankBlock> with_spares(std::vector<RankBlock> blocks,
                                   const std::vector<Candidate>& hosts) {
  const auto is_free = [&](std::size_t host) {
    return std::ranges::find(blocks, host, &RankBlock::host) == blocks.end();
  };
  for (RankBlock& block : blocks) {
    if (hosts[block.host].state != State::kAway) continue;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      if (hosts[i].state != State::kHere || !is_free(i) || !has_room(hosts[i], block)) continue;
      block.host = i;
      break;
    }
  }
  return blocks;
}

int count_ranks(const std::vector<RankBlock>& blocks) {
  int out = 0;
  for (const RankBlock& block : blocks) out += block.workers;
  return out;
}

std::vector<RankBlock> choose_world(std::vector<RankBlock> blocks,
                                    const std::vector<Candidate>& hosts,
                                    const WorldLimits& limits) {
  const std::size_t enough = limits.min_hosts == 0 ? blocks.size() : limits.min_hosts;
  std::erase_if(blocks,
                [&](const RankBlock& block) { return hosts[block.host].state != State::kHere; });
  if (blocks.size() < enough) return {};
  int ranks = count_ranks(blocks);
  while (ranks > 0 && limits.is_valid && !limits.is_valid(ranks)) --ranks;
  for (RankBlock& block : blocks) {
    block.workers = std::min(block.workers, ranks);
    ranks -= block.workers;
  }
  std::erase_if(blocks, [](const RankBlock& block) { return block.workers == 0; });
  return blocks;
}

}  // namespace hgt
