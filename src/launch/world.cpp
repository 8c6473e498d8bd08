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

}  // namespace hgt
