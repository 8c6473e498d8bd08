#include "host_plan.h"

#include <algorithm>
#include <cstdlib>

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

std::string way_to(const JobSpec& spec, const JobHost& host) {
  if (!spec.rendezvous) return shell_line(agent_command(host));
  const Rendezvous& meeting = *spec.rendezvous;
  return &host == spec.hosts.data()
             ? fmt::format("listens on port {}", meeting.port)
             : fmt::format("dials {} port {}", meeting.address, meeting.port);
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

std::string environment_lines(const EnvironmentChange& change) {
  std::string out;
  for (const auto& [name, value] : change.set)
    out += fmt::format("  {}={}\n", name, shell_word(value));
  for (const std::string& name : change.unset) out += fmt::format("  {} is not set\n", name);
  return out + fmt::format("  chosen at the start: {}\n", fmt::join(change.at_start, " "));
}

std::string host_plan(JobSpec spec,
                      const std::function<std::string(const JobHost&, int local_rank)>& device) {
  const std::vector<JobHost> hosts = without_spares(spec.hosts);
  spec.num_workers = count_ranks(hosts);
  std::string table, commands, environments;
  std::size_t width = 4;
  for (const JobHost& host : hosts) width = std::max(width, host.name.size());
  RankPlace place;
  place.num_hosts = static_cast<int>(hosts.size());
  const std::string& first_address = hosts[0].address;
  place.master_addr = first_address.empty() && place.num_hosts == 1 ? "127.0.0.1" : first_address;
  int rank = 0;
  for (const JobHost& host : spec.hosts)
    commands +=
        fmt::format("{}{}: {}\n", host.is_spare ? "spare " : "", host.name, way_to(spec, host));
  for (const JobHost& host : hosts) {
    place.local_size = host.workers;
    place.address = host.address;
    for (place.local_rank = 0; place.local_rank < host.workers; ++place.local_rank, ++rank) {
      table += fmt::format("{:4}  {:{}}  {:10}  {}\n", rank, host.name, width, place.local_rank,
                           device(host, place.local_rank));
      environments +=
          fmt::format("\nenvironment of rank {} on {}, beyond that of its host:\n{}", rank,
                      host.name, environment_lines(environment_on(spec, rank, place, host)));
    }
    ++place.host;
  }
  std::vector<std::string> names;
  for (const auto& [name, value] : travelling_environment(spec.exports)) names.push_back(name);
  return fmt::format(
      "command: {}\nworkers: {}\n\nrank  {:{}}  local rank  device\n{}\nhow each host is reached:\n"
      "{}\nvariables of this shell that the hosts get: {}\n{}",
      shell_line(spec.argv(0)), spec.num_workers, "host", width, table, commands,
      fmt::join(names, " "), environments);
}

}  // namespace hgt
