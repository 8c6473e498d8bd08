#include "unusable_hosts.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

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

}  // namespace

std::string title_of(const RosterHost& host) {
  return host.spec.name.starts_with("node ") ? host.spec.name : "host " + host.spec.name;
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
               !they_dial  ? hint_for(host, caller)
               : host.link ? ""
                           : "its own output says more; --join_timeout SECONDS waits for longer"});
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
