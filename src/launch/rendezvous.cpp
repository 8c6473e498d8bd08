#include "hgtrain/launch/rendezvous.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <memory>
#include <system_error>
#include <tuple>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error_list.h"
#include "hgtrain/base/host.h"

#include "host_range.h"
#include "join_listener.h"
#include "ports.h"
#include "scheduler.h"

extern char** environ;

namespace hgt {
namespace {

constexpr std::int64_t kMaxJoinSeconds = 30 * 86'400;

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> out;
  for (char** entry = environ; *entry; ++entry)
    if (const char* const equals = std::strchr(*entry, '='))
      out.emplace(std::string(*entry, static_cast<std::size_t>(equals - *entry)), equals + 1);
  return out;
}

bool names_hosts(const HostFlags& flags) {
  return !flags.hosts.empty() || !flags.hostfile.empty();
}

bool wants_one_node(const HostFlags& flags) {
  return flags.num_nodes.empty() || flags.num_nodes == "1" || flags.num_nodes == "1:1";
}

/// The pods of an indexed Job know their number, but not how many they are.
void take_pod(const std::map<std::string, std::string>& environment, HostFlags& flags) {
  const auto index = environment.find("JOB_COMPLETION_INDEX");
  if (index == environment.end() || names_hosts(flags) || wants_one_node(flags)) return;
  try {
    const std::vector<int> numbers = number_list(index->second);
    if (numbers.size() == 1) flags.node_rank = numbers[0];
  } catch (const Error&) {
  }
  if (!flags.node_rank)
    throw refused("the variable JOB_COMPLETION_INDEX=" + index->second + " is not a number",
                  "add --node_rank R, the number of this node");
}

/// "HOST", "HOST:PORT", "[fd00::1]:PORT".
std::pair<std::string, int> parse_endpoint(const std::string& endpoint) {
  const std::size_t colon = endpoint.rfind(':');
  const bool has_port = colon != std::string::npos && !endpoint.ends_with(']') &&
                        (endpoint.starts_with('[') || endpoint.find(':') == colon);
  std::string host = endpoint.substr(0, has_port ? colon : std::string::npos);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  constexpr int kMaxPort = 65535;
  int port = 0;
  const char* const end = endpoint.data() + endpoint.size();
  if (has_port) {
    const auto [last, error] = std::from_chars(endpoint.data() + colon + 1, end, port);
    if (error != std::errc() || last != end || port < 0 || port > kMaxPort) port = -1;
  }
  if (host.empty() || port < 0)
    throw refused(fmt::format("--rdzv_endpoint {} is not an address of node 0", endpoint),
                  "use --rdzv_endpoint HOST:PORT");
  return {host, port};
}

/// The place of node 0 in torchrun's words.
void take_endpoint(HostFlags& flags) {
  if (flags.rdzv_endpoint.empty()) return;
  if (names_hosts(flags))
    throw refused("--rdzv_endpoint cannot be combined with --hosts or --hostfile",
                  "leave it out, or use --nnodes N in place of --hosts and --hostfile");
  if (!flags.master_addr.empty() || flags.master_port != 0)
    throw refused("--rdzv_endpoint and --master_addr or --master_port are both given",
                  "keep --rdzv_endpoint HOST:PORT, or --master_addr HOST --master_port PORT");
  std::tie(flags.master_addr, flags.master_port) = parse_endpoint(flags.rdzv_endpoint);
}

/// Requires a task for each of the named hosts: task number i runs on host number i.
void require_task_for_each(const SchedulerTask& task, const std::vector<JobHost>& hosts) {
  if (task.num_tasks != std::ssize(hosts))
    throw refused(fmt::format("{} has started {} of this command, and there are {} hosts",
                              task.starter, task.num_tasks, hosts.size()),
                  "start one on each host, in the order of the hosts");
}

/// Takes the number of nodes and the place of node 0 from the scheduler, if no host is named.
void take_nodes(const SchedulerTask& task, HostFlags& flags) {
  const std::string num_tasks = std::to_string(task.num_tasks);
  const bool is_range = flags.num_nodes.ends_with(':' + num_tasks);
  if (!flags.num_nodes.empty() && flags.num_nodes != num_tasks && !is_range)
    throw refused(fmt::format("--num_nodes {} does not match: {} has started {} of this command",
                              flags.num_nodes, task.starter, num_tasks),
                  "leave it out");
  if (!is_range) flags.num_nodes = num_tasks;
  if (flags.master_addr.empty()) flags.master_addr = task.first_node;
}

void take_scheduler(HostFlags& flags) {
  const auto environment = own_environment();
  const std::optional<SchedulerTask> task = scheduler_task(environment);
  if (!task) return take_pod(environment, flags);
  const char* const named = !flags.hosts.empty() ? "--hosts" : "--hostfile";
  const bool are_named = names_hosts(flags);
  if (are_named && !flags.no_ssh)
    throw refused(fmt::format("{} has started {} of this command, and {} lets each of them start a "
                              "job of its own over ssh",
                              task->starter, task->num_tasks, named),
                  fmt::format("leave out {}, because the tasks find each other; or start the "
                              "command once, without {}",
                              named, task->starter));
  flags.node_rank = task->task;
  if (are_named)
    require_task_for_each(*task, hosts_of(flags));
  else
    take_nodes(*task, flags);
  flags.shares_output = true;
  flags.shares_node = task->shares_node;
  if (flags.master_port == 0) flags.master_port = task->port;
}

}  // namespace

void find_own_node(HostFlags& flags) {
  take_endpoint(flags);
  if (!flags.node_rank) take_scheduler(flags);
  if (flags.node_rank || flags.rdzv_endpoint.empty()) return;
  if (wants_one_node(flags)) {  // no other looks for it
    flags.master_addr.clear();
    flags.master_port = 0;
    return;
  }
  if (flags.master_port == 0) flags.master_port = Rendezvous().port;
  flags.node_rank = kAnyNode;
  if (!is_address_here(flags.master_addr)) return;
  std::error_code in_use;
  OwnedFd listener = listen_for_nodes(flags.master_port, in_use);
  if (in_use) return;
  flags.node_rank = 0;
  flags.listener = std::make_shared<OwnedFd>(std::move(listener));
}

/// Two machines may have the same name, and two containers of one machine have different ones.
std::string machine_of(const Rendezvous& rendezvous) {
  if (!rendezvous.shares_node) return "";
  return host_name() + " " + boot_id();
}

std::optional<Rendezvous> rendezvous_of(const HostFlags& flags, const std::vector<JobHost>& hosts) {
  const bool are_named = names_hosts(flags);
  const auto num_nodes = static_cast<std::int64_t>(hosts.empty() ? 1 : hosts.size());
  ErrorList wrong;
  if (flags.no_ssh && are_named && !flags.node_rank && num_nodes > 1)
    wrong.add(
        refused("--no_ssh needs --node_rank, because no host knows which node it is",
                "add --node_rank 0 on the first host, --node_rank 1 on the second, and so on"));
  if (flags.no_ssh && !are_named && !flags.node_rank)
    wrong.add(refused("--no_ssh needs hosts", "add --hostfile FILE, or --nnodes N"));
  if (flags.node_rank && are_named && !flags.no_ssh)
    wrong.add(refused(
        "--node_rank cannot be used, because one host reaches the others by ssh",
        "add --no_ssh if you start the command on each host; otherwise leave out --node_rank"));
  const bool is_any = flags.node_rank == kAnyNode && !flags.rdzv_endpoint.empty();
  if (flags.node_rank && !is_any && (*flags.node_rank < 0 || *flags.node_rank >= num_nodes))
    wrong.add(refused(fmt::format("--node_rank {} does not fit a job of {} node{}",
                                  *flags.node_rank, num_nodes, num_nodes == 1 ? "" : "s"),
                      num_nodes == 1 ? "add --nnodes N, the number of nodes"
                                     : fmt::format("use --node_rank 0 to {}", num_nodes - 1)));
  const std::int64_t timeout = flags.join_timeout_seconds.value_or(600);
  if (timeout < 1 || timeout > kMaxJoinSeconds)
    wrong.add(refused(fmt::format("--join_timeout {} is not a number of seconds from 1 to {}",
                                  timeout, kMaxJoinSeconds),
                      ""));
  if (!flags.job_secret_file.empty() && !flags.job_secret_env.empty())
    wrong.add(refused("--job_secret_file and --job_secret_env are both given", "keep one of them"));
  if (!flags.node_rank) {
    for (const auto& [flag, is_given] :
         {std::pair("--job_secret_file", !flags.job_secret_file.empty()),
          std::pair("--job_secret_env", !flags.job_secret_env.empty()),
          std::pair("--join_timeout", flags.join_timeout_seconds.has_value())})
      if (is_given)
        wrong.add(
            refused(fmt::format("{} is only for commands that are started on each node", flag),
                    "leave it out, because hosts that ssh reaches neither need a secret nor join; "
                    "or add --nnodes N, the number of nodes, and --node_rank R, the number of "
                    "this one"));
    wrong.throw_if_any();
    return std::nullopt;
  }
  const bool is_alone = num_nodes == 1;
  Rendezvous out;
  out.node = static_cast<int>(*flags.node_rank);
  out.join_timeout = std::chrono::seconds(timeout);
  if (flags.master_port != 0) out.port = flags.master_port;
  out.listener = flags.listener;
  out.shares_output = flags.shares_output;
  out.shares_node = flags.shares_node;
  out.rejoins = min_hosts_of(flags) > 0 || std::ranges::any_of(hosts, &JobHost::is_spare);
  out.address = flags.master_addr;
  if (out.address.empty() && are_named && !is_alone)
    out.address = hosts[0].address.empty() ? bare_name(hosts[0].name) : hosts[0].address;
  if (out.address.empty() && !is_alone)
    wrong.add(refused("the nodes do not know where node 0 is",
                      "add --master_addr with its name or address, on every node"));
  wrong.throw_if_any();
  return is_alone ? std::nullopt : std::optional(out);
}

}  // namespace hgt
