#include "attempt_status.h"

#include <nlohmann/json.hpp>

namespace hgt {
namespace {

const char* state_of(const RankView& rank) {
  if (rank.is_gone || rank.end) return "ended";
  return rank.pid == 0 ? "starting" : "running";
}

nlohmann::json status_of(const RankView& rank, const std::string& host, std::int64_t now_ns) {
  nlohmann::json out{
      {"rank", rank.pulse.rank}, {"host", host}, {"pid", rank.pid}, {"state", state_of(rank)}};
  if (!rank.pulse.greeted) return out;  // it sends no heartbeats
  const Heartbeat& beat = rank.pulse.last;
  out.update({{"step", beat.step},
              {"phase", beat.phase},
              {"action", beat.action},
              {"waits_in", beat.waits_in},
              {"heartbeat_age_s", static_cast<double>(now_ns - rank.pulse.heard_ns) * 1e-9}});
  return out;
}

}  // namespace

nlohmann::json status_of(const AttemptRecord& attempt, std::int64_t now_ns) {
  auto hosts = nlohmann::json::array(), ranks = nlohmann::json::array();
  for (const HostRanks& host : attempt.hosts)
    hosts.push_back(
        {{"name", host.spec.name}, {"first_rank", host.first_rank}, {"num_ranks", host.num_ranks}});
  for (const RankView& rank : attempt.ranks)
    ranks.push_back(status_of(rank, attempt.hosts[rank.host].spec.name, now_ns));
  return {{"hosts", std::move(hosts)}, {"ranks", std::move(ranks)}};
}

}  // namespace hgt
