#include "host_plan.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/error_list.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/launch/preflight.h"
#include "hgtrain/machine/visible_gpus.h"

namespace hgt {
namespace {

int count_ranks(const std::vector<JobHost>& hosts) {
  int out = 0;
  ErrorList unknown;
  for (const JobHost& host : hosts) {
    out += host.workers;
    if (host.workers > 0) continue;
    unknown.add(
        {ErrorKind::kConfig,
         fmt::format("host {} has no number of workers, and a dry run asks no host", host.name),
         fmt::format("use --hosts {}:4, or --num_workers 4 for each host", host.name)});
  }
  unknown.throw_if_any();
  return out;
}

/// How each host is reached, a line each.
std::string ways_to_hosts(const JobSpec& spec) {
  std::string out, script;
  for (const JobHost& host : spec.hosts) {
    out += fmt::format("{}{}: ", host.is_spare ? "spare " : "", host.name);
    if (spec.rendezvous) {
      const Rendezvous& meeting = *spec.rendezvous;
      out += &host == spec.hosts.data()
                 ? fmt::format("listens on port {}\n", meeting.port)
                 : fmt::format("dials {} port {}\n", meeting.address, meeting.port);
      continue;
    }
    std::vector<std::string> command = agent_command(host);
    script = command.back();  // the same for all
    command.pop_back();
    out += shell_line(command) + " \"$SCRIPT\"\n";
  }
  return script.empty() ? out : fmt::format("SCRIPT={}\n{}", shell_word(script), out);
}

/// The environment of a rank, without what the host itself decides, because that is not known here.
EnvironmentChange environment_on(const JobSpec& spec, int rank, const RankPlace& place,
                                 const JobHost& host) {
  EnvironmentChange out = worker_environment(spec, rank, 0, place);
  if (!spec.env.contains("OMP_NUM_THREADS") && !std::getenv("OMP_NUM_THREADS")) {
    out.set.erase("OMP_NUM_THREADS");
    out.at_start.emplace_back("OMP_NUM_THREADS");
  }
  if (host.address.empty() && !host.interface.empty()) {
    std::erase(out.unset, "HGTRAIN_ADDRESS");
    out.at_start.emplace_back("HGTRAIN_ADDRESS");
  }
  out.set.merge(host_environment(host));
  return out;
}

}  // namespace

std::string local_gpus(int ranks, const std::vector<std::string>& devices) {
  InspectedHost here;
  here.spec = {.workers = ranks, .devices = devices};
  const VisibleDevices visible = visible_gpus();
  for (const VisibleGpu& gpu : visible.gpus) here.facts.gpus.push_back(gpu.uuid);
  for (const VisibleGpu& gpu : visible.machine.gpus) here.facts.all_gpus.push_back(gpu.uuid);
  if (here.facts.all_gpus.empty()) return "";
  std::string out = "\nrank  GPU\n";
  int rank = 0;
  for (const std::string& uuid : used_gpus(here))
    out += fmt::format("{:4}  {}\n", rank++, uuid.empty() ? "none here" : uuid);
  return out;
}

namespace {

/// A line for each variable that `change` sets or removes, and one that lists those whose values
/// are chosen at the start.
std::string environment_lines(const EnvironmentChange& change) {
  std::string out;
  for (const auto& [name, value] : change.set)
    out += fmt::format("  {}={}\n", name, shell_word(value));
  for (const std::string& name : change.unset) out += fmt::format("  {} is not set\n", name);
  return out + fmt::format("  chosen at the start: {}\n", fmt::join(change.at_start, " "));
}

/// What `change` says about each variable.
std::map<std::string, std::string> by_name(const EnvironmentChange& change) {
  std::map<std::string, std::string> out;
  for (const auto& [name, value] : change.set) out[name] = "=" + shell_word(value);
  for (const std::string& name : change.unset) out[name] = " is not set";
  for (const std::string& name : change.at_start) out[name] = " is chosen at the start";
  return out;
}

std::string differing_lines(const EnvironmentChange& change, const EnvironmentChange& first) {
  const auto here = by_name(change), there = by_name(first);
  std::string out;
  for (const auto& [name, what] : here)
    if (const auto same = there.find(name); same == there.end() || same->second != what)
      out += fmt::format("  {}{}\n", name, what);
  for (const auto& [name, unused] : there)
    if (!here.contains(name)) out += fmt::format("  {} is its host's\n", name);
  return out;
}

}  // namespace

std::string rank_environments(const std::vector<std::pair<std::string, EnvironmentChange>>& ranks,
                              const std::string& beyond) {
  std::string out;
  for (const auto& [rank, change] : ranks)
    out += out.empty() ? fmt::format("\nenvironment of {}, beyond {}:\n{}", rank, beyond,
                                     environment_lines(change))
                       : fmt::format("\nenvironment of {}, as that of {} except for:\n{}", rank,
                                     ranks[0].first, differing_lines(change, ranks[0].second));
  return out;
}

std::string host_plan(JobSpec spec,
                      const std::function<std::string(const JobHost&, int local_rank)>& device) {
  const std::vector<JobHost> hosts = without_spares(spec.hosts);
  spec.num_workers = count_ranks(hosts);
  std::string table;
  std::vector<std::pair<std::string, EnvironmentChange>> environments;
  std::size_t width = 4;
  for (const JobHost& host : hosts) width = std::max(width, host.name.size());
  RankPlace place;
  place.num_hosts = static_cast<int>(hosts.size());
  const std::string& first_address = hosts[0].address;
  place.master_addr = first_address.empty() && place.num_hosts == 1 ? "127.0.0.1" : first_address;
  int rank = 0;
  for (const JobHost& host : hosts) {
    place.local_size = host.workers;
    place.address = host.address;
    for (place.local_rank = 0; place.local_rank < host.workers; ++place.local_rank, ++rank) {
      table += fmt::format("{:4}  {:{}}  {:10}  {}\n", rank, host.name, width, place.local_rank,
                           device(host, place.local_rank));
      environments.emplace_back(fmt::format("rank {} on {}", rank, host.name),
                                environment_on(spec, rank, place, host));
    }
    ++place.host;
  }
  std::vector<std::string> names;
  for (const auto& [name, value] : travelling_environment(spec.exports)) names.push_back(name);
  return fmt::format(
      "command: {}\nworkers: {}\n\nrank  {:{}}  local rank  device\n{}\nhow each host is reached:\n"
      "{}\nvariables of this shell that the hosts get: {}\n{}",
      shell_line(spec.argv(0)), spec.num_workers, "host", width, table, ways_to_hosts(spec),
      fmt::join(names, " "), rank_environments(environments, "that of its host"));
}

}  // namespace hgt
