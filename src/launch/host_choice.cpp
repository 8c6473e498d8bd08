#include "hgtrain/launch/host_choice.h"

#include <algorithm>
#include <charconv>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/error_list.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/launch/rendezvous.h"
#include "hgtrain/machine/visible_gpus.h"

#include "host_range.h"

namespace hgt {
namespace {

constexpr std::int64_t kMaxHostfileBytes = 16 << 20;
constexpr std::int64_t kMaxTimeout = 1'000'000;
constexpr const char* kFilterHint =
    "hosts are separated by @, and the slots of a host by commas: a@b:0,2-3";

struct NodeRange {
  std::int64_t min = 0;  ///< 0: `max`
  std::int64_t max = 0;
};

/// "4", or "2:4".
NodeRange node_range(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string first = text.substr(0, colon);
  const auto number = [](const std::string& word) -> std::int64_t {
    std::int64_t out = 0;
    const char* const end = word.data() + word.size();
    const auto [last, error] = std::from_chars(word.data(), end, out);
    return error == std::errc() && last == end ? out : 0;
  };
  NodeRange out{0, number(first)};
  if (colon != std::string::npos) out = {out.max, number(text.substr(colon + 1))};
  const std::int64_t min = colon == std::string::npos ? out.max : out.min;
  if (min < 1 || out.max < min)
    throw refused(fmt::format("--num_nodes {} is neither a number of hosts nor a range", text),
                  "use --num_nodes 4, or --num_nodes 2:4 if two are enough");
  return out;
}

/// Hosts that nobody names: each says who it is when it joins.
std::vector<JobHost> nodes(const std::string& number, int workers) {
  const NodeRange range = number.empty() ? NodeRange{0, 1} : node_range(number);
  if (range.max > kMaxHosts)
    throw refused(fmt::format("--nnodes {} is not from 1 to {}", number, kMaxHosts));
  std::vector<JobHost> out;
  for (std::int64_t i = 0; range.max > 1 && i < range.max; ++i)
    out.push_back({.name = fmt::format("node {}", i), .workers = workers});
  return out;
}

std::vector<JobHost> named_hosts(const HostFlags& flags) {
  if (!flags.hosts.empty() && !flags.hostfile.empty())
    throw refused("--hosts and --hostfile are both given", "keep one of them");
  if (!flags.hosts.empty()) return parse_hosts(flags.hosts);
  if (flags.hostfile.empty() && flags.node_rank) {
    const bool is_task_per_worker = flags.shares_node && !flags.num_workers;
    return nodes(flags.num_nodes, is_task_per_worker ? 1 : 0);
  }
  if (flags.hostfile.empty()) {
    const std::string& filter = flags.include.empty() ? flags.exclude : flags.include;
    if (filter.starts_with("localhost")) return {{.name = "localhost"}};
    return {};
  }
  if (flags.hostfile_text) return parse_hostfile(*flags.hostfile_text, flags.hostfile);
  if (!path_exists(flags.hostfile, ErrorKind::kConfig))
    throw refused(fmt::format("there is no hostfile {}{}", flags.hostfile,
                              flags.no_ssh ? " on " + host_name() : ""),
                  flags.no_ssh ? "each host reads it: copy it there, or use --hosts a:4,b:4 instead"
                  : flags.hostfile.find_first_of(":,") != std::string::npos
                      ? "to name hosts in the command: --hosts " + shell_word(flags.hostfile)
                      : "each line of one is a host and the number of its workers: a slots=4");
  return parse_hostfile(read_file(flags.hostfile, kMaxHostfileBytes, ErrorKind::kConfig),
                        flags.hostfile);
}

void refuse_without_hosts(const HostFlags& flags) {
  ErrorList wrong;
  if (!flags.include.empty() || !flags.exclude.empty())
    wrong.add(
        refused("--include and --exclude need --hosts or --hostfile, whose hosts they choose from",
                "to choose GPUs of this machine, use --include localhost:0,2"));
  const bool has_others = !flags.num_nodes.empty() && node_range(flags.num_nodes).max != 1;
  const std::string& first = flags.master_addr;
  const bool is_first_elsewhere = !first.empty() && first != "127.0.0.1" && first != "localhost";
  if (has_others && is_first_elsewhere)
    wrong.add(refused(
        fmt::format("--nnodes {} --master_addr {} does not say which node this is", flags.num_nodes,
                    first),
        fmt::format("add --node_rank R, which is 0 on {0}; or use --rdzv_endpoint {0}:{1} in place "
                    "of --master_addr, on every node",
                    first, flags.master_port == 0 ? Rendezvous().port : flags.master_port)));
  else if (has_others)
    wrong.add(refused(fmt::format("--num_nodes {} (--nnodes) needs hosts", flags.num_nodes),
                      "name them with --hosts a:4,b:4 or --hostfile FILE; or start the command on "
                      "each node, with its --node_rank"));
  else if (!flags.node_rank && is_first_elsewhere)
    wrong.add(
        refused(fmt::format("--master_addr {} needs --hosts", first),
                "leave it out if this machine is the only one; or add --nnodes N, the number of "
                "nodes, and --node_rank R, the number of this one"));
  if (flags.ssh_port) wrong.add(refused("--ssh_port needs --hosts", "leave it out"));
  if (flags.elastic_timeout) wrong.add(refused("--elastic_timeout needs --hosts", "leave it out"));
  wrong.throw_if_any();
}

/// What a filter says of a host.
struct Mention {
  bool is_named = false;
  bool is_whole = false;
  std::vector<std::string> slots;
};

/// None if their number is not known.
std::vector<std::string> slots_of(const JobHost& host) {
  if (!host.devices.empty()) return host.devices;
  std::vector<std::string> out;
  for (int i = 0; i < host.workers; ++i) out.push_back(std::to_string(i));
  return out;
}

bool is_in(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

/// Adds the slots that `list` names to those of the host.
void mention_slots(const JobHost& host, const std::string& list, Mention& mention,
                   ErrorList& wrong) {
  const std::vector<std::string> there = slots_of(host);
  for (const std::string& slot : device_list(list)) {
    if (!there.empty() && !is_in(there, slot))
      wrong.add(refused(
          fmt::format("host {} has no slot {}, only {}", host.name, slot, fmt::join(there, ", ")),
          kFilterHint));
    if (!is_in(mention.slots, slot)) mention.slots.push_back(slot);
  }
}

/// One word of a filter: "b", "b:0,2", "n[1-3]:0".
void mention(const std::string& word, const std::vector<JobHost>& hosts,
             std::vector<Mention>& mentions, ErrorList& wrong) {
  const std::size_t colon = word.ends_with(']') ? std::string::npos : word.rfind(':');
  for (std::string name : expand_names(word.substr(0, colon))) {
    if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
    const auto host = std::find_if(hosts.begin(), hosts.end(),
                                   [&](const JobHost& h) { return is_same_host(h.name, name); });
    if (host == hosts.end()) {
      wrong.add(refused(fmt::format("there is no host '{}'", name), kFilterHint));
      continue;
    }
    Mention& known = mentions[static_cast<std::size_t>(host - hosts.begin())];
    known.is_named = true;
    if (colon == std::string::npos)
      known.is_whole = true;
    else
      mention_slots(*host, word.substr(colon + 1), known, wrong);
  }
}

std::vector<Mention> mentions_in(const char* flag, const std::string& filter,
                                 const std::vector<JobHost>& hosts) {
  std::vector<Mention> out(hosts.size());
  ErrorList wrong;
  for (const std::string& word : split_outside_brackets(filter, '@')) try {
      mention(word, hosts, out, wrong);
    } catch (const Error& e) {
      wrong.add(refused(e.message(), kFilterHint));
    }
  try {
    wrong.throw_if_any();
  } catch (Error& e) {
    e.in(fmt::format("{} {}", flag, filter));
    throw;
  }
  return out;
}

/// The GPUs that programs see on this machine, by their numbers among all that it has.
std::vector<std::string> gpus_here() {
  const VisibleDevices devices = visible_gpus();
  const std::vector<VisibleGpu>& all = devices.machine.gpus;
  std::vector<std::string> out;
  for (const VisibleGpu& gpu : devices.gpus)
    if (const auto at = std::ranges::find(all, gpu.uuid, &VisibleGpu::uuid); at != all.end())
      out.push_back(std::to_string(at - all.begin()));
  return out;
}

JobHost with_slots(JobHost host, std::vector<std::string> slots) {
  host.workers = static_cast<int>(slots.size());
  host.devices = std::move(slots);
  return host;
}

std::vector<JobHost> included(const std::string& filter, const std::vector<JobHost>& hosts) {
  const std::vector<Mention> mentions = mentions_in("--include", filter, hosts);
  std::vector<JobHost> out;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const Mention& said = mentions[i];
    if (said.is_whole) {
      out.push_back(hosts[i]);
    } else if (said.is_named) {
      std::vector<std::string> kept = slots_of(hosts[i]);
      std::erase_if(kept, [&](const std::string& slot) { return !is_in(said.slots, slot); });
      out.push_back(with_slots(hosts[i], kept.empty() ? said.slots : kept));
    }
  }
  return out;
}

/// Without a number, this machine's slots are its GPUs.
std::vector<JobHost> without_excluded(const std::string& filter, std::vector<JobHost> hosts) {
  if (is_this_machine(hosts) && hosts[0].workers == 0) hosts[0] = with_slots(hosts[0], gpus_here());
  const std::vector<Mention> mentions = mentions_in("--exclude", filter, hosts);
  std::vector<JobHost> out;
  ErrorList wrong;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const Mention& said = mentions[i];
    if (said.is_whole) continue;
    std::vector<std::string> left = slots_of(hosts[i]);
    if (said.is_named && left.empty())
      wrong.add(
          refused(fmt::format("--exclude needs to know how many slots host {} has", hosts[i].name),
                  fmt::format("use --hosts {}:4", hosts[i].name)));
    std::erase_if(left, [&](const std::string& slot) { return is_in(said.slots, slot); });
    if (!said.is_named)
      out.push_back(hosts[i]);
    else if (!left.empty())
      out.push_back(with_slots(hosts[i], left));
  }
  wrong.throw_if_any();
  if (out.empty()) throw refused("--exclude " + filter + " leaves nothing to run on");
  return out;
}

/// Takes the first slots of each host.
void take_workers(std::int64_t workers, std::vector<JobHost>& hosts) {
  ErrorList wrong;
  for (JobHost& host : hosts) {
    if (host.workers > 0 && workers > host.workers)
      wrong.add(refused(fmt::format("{} workers on each host are asked for, but {} has {} slot{}",
                                    workers, host.name, host.workers, host.workers == 1 ? "" : "s"),
                        "ask for fewer, leave the number to the hosts, or give them more slots"));
    host.workers = static_cast<int>(workers);
    if (!host.devices.empty()) host.devices.resize(static_cast<std::size_t>(workers));
  }
  wrong.throw_if_any();
}

/// Spares come last, and each could take the place of another host.
void order_spares(std::vector<JobHost>& hosts) {
  std::ranges::stable_partition(hosts, [](const JobHost& host) { return !host.is_spare; });
  const std::vector<JobHost> others = without_spares(hosts);
  if (others.empty()) throw refused("every host is a spare", "leave out `spare` for one of them");
  const int min = std::ranges::min(others, {}, &JobHost::workers).workers;
  ErrorList wrong;
  for (const JobHost& host : hosts)
    if (host.is_spare && host.workers > 0 && host.workers < min)
      wrong.add(refused(fmt::format("spare host {} has {} slot{}, fewer than any other host",
                                    host.name, host.workers, host.workers == 1 ? "" : "s"),
                        "a spare takes all ranks of a host that is lost: it needs as many slots"));
  wrong.throw_if_any();
}

/// The first hosts, and all spares. Hosts beyond a range are spares, too.
void take_hosts(const NodeRange& range, std::vector<JobHost>& hosts) {
  std::int64_t left = range.max;
  if (range.min == 0)
    std::erase_if(hosts, [&](const JobHost& host) { return !host.is_spare && left-- <= 0; });
  else
    for (JobHost& host : hosts) host.is_spare = host.is_spare || left-- <= 0;
}

/// Where all find the first host.
void set_address(const std::string& address, std::vector<JobHost>& hosts) {
  JobHost& first = hosts.front();
  if (!first.address.empty() && first.address != address)
    throw refused(fmt::format("--master_addr {} contradicts the hostfile, in which {} is at {}",
                              address, first.name, first.address),
                  "keep one of them");
  first.address = address;
}

}  // namespace

std::vector<JobHost> hosts_of(const HostFlags& flags) {
  std::vector<JobHost> hosts = named_hosts(flags);
  if (hosts.empty()) {
    refuse_without_hosts(flags);
    return {};
  }
  ErrorList wrong;
  if (!flags.include.empty() && !flags.exclude.empty())
    wrong.add(refused("--include and --exclude are both given", "keep one of them"));
  if ((!flags.include.empty() || !flags.exclude.empty()) &&
      (!flags.num_nodes.empty() || flags.num_workers))
    wrong.add(refused("--include or --exclude cannot be combined with a number of nodes or workers",
                      "keep one of them"));
  if (flags.num_workers && *flags.num_workers < 1)
    wrong.add(
        refused(fmt::format("{} is not a number of workers on each host", *flags.num_workers)));
  const auto num_hosts = static_cast<std::int64_t>(without_spares(hosts).size());
  const NodeRange range =
      flags.num_nodes.empty() ? NodeRange{0, num_hosts} : node_range(flags.num_nodes);
  if ((range.min == 0 ? range.max : range.min) > num_hosts)
    wrong.add(refused(fmt::format("--num_nodes {} is more than the number of hosts, {}",
                                  flags.num_nodes, num_hosts),
                      "leave it out for all hosts"));
  if (const std::int64_t port = flags.ssh_port.value_or(1); port < 1 || port > 65535)
    wrong.add(refused(fmt::format("--ssh_port {} is not between 1 and 65535", port)));
  if (flags.elastic_timeout && (*flags.elastic_timeout < 0 || *flags.elastic_timeout > kMaxTimeout))
    wrong.add(refused(fmt::format("--elastic_timeout {} is not a number of seconds from 0 to {}",
                                  *flags.elastic_timeout, kMaxTimeout)));
  if (flags.elastic_timeout && flags.node_rank)
    wrong.add(refused("--elastic_timeout is for hosts that ssh reaches",
                      "use --join_timeout SECONDS, which is how long nodes wait for each other"));
  wrong.throw_if_any();

  if (!flags.include.empty()) hosts = included(flags.include, hosts);
  if (!flags.exclude.empty()) hosts = without_excluded(flags.exclude, hosts);
  take_hosts(range, hosts);
  if (flags.num_workers) take_workers(*flags.num_workers, hosts);
  if (flags.no_ssh && !std::ranges::is_partitioned(hosts, std::logical_not(), &JobHost::is_spare))
    throw refused(
        "with --no_ssh, spare hosts must be the last ones, because --node_rank counts them",
        "move them to the end of the hostfile, on every host");
  order_spares(hosts);
  if (!flags.master_addr.empty() && !flags.node_rank) set_address(flags.master_addr, hosts);
  if (flags.no_ssh && hosts.size() == 1)
    return {{.name = "localhost", .workers = hosts[0].workers, .devices = hosts[0].devices}};
  for (JobHost& host : hosts)
    if (host.ssh_port == 0) host.ssh_port = static_cast<int>(flags.ssh_port.value_or(0));
  const bool is_elastic = range.min > 0 || std::ranges::any_of(hosts, &JobHost::is_spare);
  if (flags.elastic_timeout && !is_elastic && !flags.restarts)
    throw refused("--elastic_timeout has no effect, because the job ends if it loses a host",
                  "leave it out; or use --max_restarts N, with which the job waits for the host, "
                  "--num_nodes MIN:MAX, with which it continues on fewer hosts, or a spare host");
  return hosts;
}

bool reaches_hosts(const HostFlags& flags) {
  return (!flags.hosts.empty() || !flags.hostfile.empty()) && !flags.no_ssh;
}

int min_hosts_of(const HostFlags& flags) {
  return flags.num_nodes.empty() ? 0 : static_cast<int>(node_range(flags.num_nodes).min);
}

bool is_this_machine(const std::vector<JobHost>& hosts) {
  if (hosts.size() != 1) return false;
  const JobHost& host = hosts[0];
  const bool is_there =
      host.address.empty() || host.address == "127.0.0.1" || host.address == "localhost";
  return is_same_host(host.name, "localhost") && host.name.find('@') == std::string::npos &&
         host.user.empty() && host.ssh_port == 0 && host.interface.empty() && is_there;
}

}  // namespace hgt
