#include "hgtrain/launch/rendezvous.h"

#include <fmt/format.h>

#include "hgtrain/base/error_list.h"

namespace hgt {
namespace {

Error refused(const std::string& message, const std::string& hint) {
  return {ErrorKind::kConfig, message, hint};
}

constexpr std::int64_t kMaxJoinSeconds = 30 * 86'400;

}  // namespace

std::optional<Rendezvous> rendezvous_of(const HostFlags& flags, const std::vector<JobHost>& hosts) {
  const bool are_named = !flags.hosts.empty() || !flags.hostfile.empty();
  const auto num_nodes = static_cast<std::int64_t>(hosts.empty() ? 1 : hosts.size());
  ErrorList wrong;
  if (flags.no_ssh && are_named && !flags.node_rank)
    wrong.add(refused("--no_ssh: each host is started by itself, and none knows which it is",
                      "on the first of them --node_rank 0, on the second --node_rank 1, ..."));
  if (flags.no_ssh && !are_named && !flags.node_rank)
    wrong.add(refused("--no_ssh without hosts", "--hostfile FILE, or --nnodes N"));
  if (flags.node_rank && are_named && !flags.no_ssh)
    wrong.add(refused("--node_rank: these hosts are reached by ssh, from one of them",
                      "--no_ssh if each is started by itself, otherwise without --node_rank"));
  if (flags.node_rank && (*flags.node_rank < 0 || *flags.node_rank >= num_nodes))
    wrong.add(refused(fmt::format("--node_rank {} of {} node{}", *flags.node_rank, num_nodes,
                                  num_nodes == 1 ? "" : "s"),
                      num_nodes == 1 ? "--nnodes says how many there are"
                                     : fmt::format("0 to {}", num_nodes - 1)));
  const std::int64_t timeout = flags.join_timeout_seconds.value_or(600);
  if (timeout < 1 || timeout > kMaxJoinSeconds)
    wrong.add(refused(fmt::format("--join_timeout {} is no number of seconds from 1 to {}", timeout,
                                  kMaxJoinSeconds),
                      ""));
  if (!flags.job_secret_file.empty() && !flags.job_secret_env.empty())
    wrong.add(refused("--job_secret_file and --job_secret_env exclude each other", "keep one"));
  if (!flags.node_rank) {
    for (const auto& [flag, value] : {std::pair("--job_secret_file", flags.job_secret_file),
                                      std::pair("--job_secret_env", flags.job_secret_env)})
      if (!value.empty())
        wrong.add(refused(fmt::format("{} is for nodes that are started by themselves", flag),
                          "with --node_rank; hosts that ssh reaches need no secret"));
    wrong.throw_if_any();
    return std::nullopt;
  }
  const bool is_alone = num_nodes == 1;
  Rendezvous out;
  out.node = static_cast<int>(*flags.node_rank);
  out.join_timeout = std::chrono::seconds(timeout);
  if (flags.master_port != 0) out.port = flags.master_port;
  out.address = flags.master_addr;
  if (out.address.empty() && are_named && !is_alone)
    out.address = hosts[0].address.empty() ? bare_name(hosts[0].name) : hosts[0].address;
  if (out.address.empty() && !is_alone)
    wrong.add(refused("the nodes do not know where node 0 is",
                      "its name or address, on every node: --master_addr HOST"));
  wrong.throw_if_any();
  return is_alone ? std::nullopt : std::optional(out);
}

}  // namespace hgt
