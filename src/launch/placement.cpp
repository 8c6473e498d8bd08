#include "placement.h"

#include <algorithm>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/machine/network.h"

namespace hgt {
namespace {

void share_local_ranks(const std::vector<RosterHost>& hosts, const std::vector<RankRange>& world,
                       std::vector<HostRanks>& out) {
  std::vector<std::string> keys;
  std::vector<int> ranks;  // of each machine
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::string& key = hosts[world[i].host].machine;
    const auto known = key.empty() ? keys.end() : std::ranges::find(keys, key);
    out[i].machine = static_cast<int>(known - keys.begin());
    if (known == keys.end()) {
      keys.push_back(key);
      ranks.push_back(0);
    }
    int& on_machine = ranks[static_cast<std::size_t>(out[i].machine)];
    out[i].first_local_rank = on_machine;
    on_machine += out[i].num_ranks;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].local_size = ranks[static_cast<std::size_t>(out[i].machine)];
    // A task that sees its own GPUs alone counts them from 0.
    const int gpus = hosts[world[i].host].gpus;
    if (gpus > 0 && gpus < out[i].local_size && out[i].num_ranks < out[i].local_size)
      out[i].first_local_rank = 0;
  }
}

}  // namespace

std::vector<HostRanks> place_ranks(const std::vector<RosterHost>& hosts,
                                   const std::vector<RankRange>& world) {
  std::vector<HostRanks> out;
  int first_rank = 0;
  for (const RankRange& range : world) {
    const RosterHost& host = hosts[range.host];
    HostRanks& ranks = out.emplace_back(
        HostRanks{host.link.get(), first_rank, range.workers, host.spec, host.address});
    ranks.spec.workers = range.workers;
    if (host.facts) ranks.interface = host.facts->interface;
    if (!ranks.spec.devices.empty())
      ranks.spec.devices.resize(static_cast<std::size_t>(range.workers));
    first_rank += range.workers;
  }
  share_local_ranks(hosts, world, out);
  return out;
}

std::vector<InspectedHost> inspected_hosts(const std::vector<RosterHost>& hosts,
                                           const std::vector<RankRange>& world) {
  std::vector<InspectedHost> out;
  const std::vector<HostRanks> placed = place_ranks(hosts, world);
  for (std::size_t i = 0; i < placed.size(); ++i) {
    const RosterHost& host = hosts[world[i].host];
    if (!host.facts) continue;
    InspectedHost& next = out.emplace_back(InspectedHost{
        placed[i].spec, placed[i].first_local_rank, placed[i].machine, *host.facts, {}});
    next.clock = host.link->clock_offset(host.facts->wall_ns);
  }
  return out;
}

std::string dialled_address(const std::vector<RosterHost>& hosts) {
  std::string out = "127.0.0.1";
  for (const RosterHost& host : hosts)
    if (!host.our_address.empty() && is_loopback(out)) out = host.our_address;
  return out;
}

std::string address_for_others(const JobHost& first, const std::string& ssh_address) {
  if (first.address.empty() && !first.interface.empty()) return "";
  const std::string& address = first.address.empty() ? ssh_address : first.address;
  if (!address.empty() && !is_loopback(address)) return address;
  throw Error(ErrorKind::kConfig,
              fmt::format("{} host {} at {}, where other hosts cannot reach it",
                          first.address.empty() ? "ssh reaches" : "the workers look for",
                          first.name, address.empty() ? "an unknown address" : address),
              "use --master_addr with its address in the network of the others");
}

std::string find_master_address(const std::vector<RosterHost>& hosts,
                                const std::vector<RankRange>& world) {
  const RosterHost& first = hosts[world[0].host];
  if (world.size() > 1) return address_for_others(first.spec, first.address);
  return first.spec.address.empty() ? "127.0.0.1" : first.spec.address;
}

}  // namespace hgt
