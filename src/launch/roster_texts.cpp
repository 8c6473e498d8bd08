#include "roster_texts.h"

#include <algorithm>
#include <ctime>
#include <string>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/error_list.h"

#include "ssh_failure.h"

namespace hgt {
namespace {

/// Who calls the hosts, if that is one of them.
std::string caller_of(const std::vector<RosterHost>& hosts) {
  const auto here = std::ranges::find_if(hosts, &RosterHost::is_here);
  return here == hosts.end() ? ""
                             : fmt::format(" from {}, where the launcher runs", here->spec.name);
}

std::string hint_for(const RosterHost& host, const std::string& caller) {
  if (host.why_away == host.lacks) return "";  // ssh has reached it
  const std::string hint = hint_for_ssh(host.spec, host.why_away);
  if (host.is_here || hint.empty() || caller.empty()) return hint;
  const bool lacks_key = host.why_away.find("Permission denied") != std::string::npos;
  return fmt::format("there, {}{}", hint,
                     lacks_key ? "; or lend it your ssh-agent: ForwardAgent yes in your own "
                                 "~/.ssh/config"
                               : "");
}

std::string hint_for_node(const RosterHost& node) {
  if (node.link) return "";
  return node.why_away.find(kOtherSecret) == std::string::npos
             ? "its own output says more; --join_timeout SECONDS waits for longer"
             : "give all nodes the same job secret";
}

}  // namespace

std::string title_of(const RosterHost& host) {
  return host.spec.name.starts_with("node ") ? host.spec.name : "host " + host.spec.name;
}

std::string text_of_away(const RosterHost& host) {
  return fmt::format("{} cannot be used{}: {}", title_of(host), host.lacks.empty() ? "" : " yet",
                     host.why_away);
}

std::string text_of_small_spare(const RosterHost& spare) {
  return fmt::format(
      "{} is a spare that is too small: it has {} slot{}, and each host that it could replace has "
      "more",
      title_of(spare), spare.spec.workers, spare.spec.workers == 1 ? "" : "s");
}

std::string text_of_waiting(const std::vector<RosterHost>& hosts, std::chrono::nanoseconds left,
                            std::chrono::nanoseconds call_period) {
  std::vector<std::string> away;
  for (const RosterHost& host : hosts)
    if (host.state == Candidate::State::kAway && !host.is_left_out)
      away.push_back(fmt::format("{} ({})", host.spec.name, host.why_away));
  const std::int64_t seconds = std::chrono::ceil<std::chrono::seconds>(left).count();
  const double period = std::chrono::duration<double>(call_period).count();
  return fmt::format("too few hosts can be used: waiting up to {} s, until {:%H:%M:%S}, for {}{}",
                     seconds, fmt::localtime(std::time(nullptr) + seconds), fmt::join(away, ", "),
                     period == 0 ? "" : fmt::format("; called again every {:g} s", period));
}

std::string text_of_world(const std::vector<RosterHost>& hosts, const std::vector<RankRange>& world,
                          std::size_t num_hosts) {
  std::vector<std::string> names;
  for (const RankRange& range : world) names.push_back(hosts[range.host].spec.name);
  const int ranks = count_ranks(world);
  return fmt::format("running {} rank{} on {} of {} hosts: {}", ranks, ranks == 1 ? "" : "s",
                     names.size(), num_hosts, fmt::join(names, ", "));
}

Error why_unusable(const std::vector<RosterHost>& hosts, const std::vector<RankRange>& ranges,
                   bool they_dial) {
  const std::string caller = caller_of(hosts);
  ErrorList out;
  for (const RosterHost& host : hosts)
    if (host.state == Candidate::State::kAway)
      out.add({they_dial && !host.link ? ErrorKind::kPeer : ErrorKind::kDevice,
               fmt::format("{} cannot be used{}: {}", title_of(host), host.is_here ? "" : caller,
                           host.why_away),
               they_dial ? hint_for_node(host) : hint_for(host, caller)});
  if (out.all()) return *out.all();
  const RosterHost& first = hosts[ranges.at(0).host];
  if (first.facts && !first.facts->missing_run_dir.empty())
    return {ErrorKind::kConfig,
            fmt::format("host {}, which has rank 0, does not see the run folder {} of this machine",
                        first.spec.name, first.facts->missing_run_dir),
            "type the command on that host, or add --detach, which starts the launcher there; or "
            "take a run folder on a file system that both share: --run_dir DIR"};
  return {ErrorKind::kConfig, fmt::format("the job cannot be split over {} ranks, nor over fewer",
                                          count_ranks(ranges))};
}

}  // namespace hgt
