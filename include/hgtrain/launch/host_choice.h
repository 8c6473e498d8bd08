#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hgtrain/launch/hosts.h"

namespace hgt {

class OwnedFd;

/// In place of its number: the node takes any number that is free when it joins.
inline constexpr int kAnyNode = -1;

/// The variable with the job's secret, unless HostFlags::job_secret_env names another one.
inline constexpr const char* kJobSecretVariable = "HGTRAIN_JOB_SECRET";

/// The flags about the hosts of a job as the user typed them; "" or 0 = not given.
struct HostFlags {
  std::string hosts = {};     ///< parse_hosts()
  std::string hostfile = {};  ///< path of a hostfile
  /// The content of the hostfile, if it lies on the machine where the command was typed.
  std::optional<std::string> hostfile_text = {};
  /// "a@b:0,2-3": host a, and slots 0, 2 and 3 of host b. `include` keeps only these, `exclude`
  /// drops them. A slot is a number below the host's number of workers or, if the hostfile names
  /// its GPUs, one of these GPUs.
  std::string include = {}, exclude = {};
  /// "2": only the first two hosts, or two nodes that nobody names. "1:2": at most two run ranks,
  /// one is enough, and further hosts are spares.
  std::string num_nodes = {};
  std::optional<std::int64_t> elastic_timeout = {};  ///< seconds
  bool restarts = false;                             ///< the job may restart and wait for its hosts
  std::optional<std::int64_t> num_workers = {};      ///< on each host: the first of its slots
  std::optional<std::int64_t> ssh_port = {};  ///< the port for hosts without one of their own
  std::string master_addr = {};               ///< the address of the first host that runs ranks
  int master_port = 0;                        ///< 0 = any free one

  /// For hosts on each of which the command was started (rendezvous_of()): the number of this one.
  bool no_ssh = false;                         ///< hosts are named, but not reached by ssh
  std::optional<std::int64_t> node_rank = {};  ///< kAnyNode: the first to join is number 1
  /// torchrun's: where node 0 is, as "HOST:PORT". A node without a number is node 0 if it is there.
  std::string rdzv_endpoint = {};
  std::string rdzv_backend = {};  ///< torchrun's
  std::string rdzv_conf = {};     ///< torchrun's "KEY=VALUE,KEY=VALUE"
  /// Of a node that rdzv_endpoint has made node 0: a socket that listens on master_port.
  std::shared_ptr<OwnedFd> listener = {};
  bool shares_output = false;  ///< a scheduler prints what all nodes print
  bool shares_node = false;    ///< a scheduler has started several of the hosts on one machine
  std::string launcher = {};   ///< who starts them: "ssh", "slurm", ...
  std::string job_secret_file = {}, job_secret_env = {};
  std::optional<std::int64_t> join_timeout_seconds = {};
};

/// The hosts to run on, spares last. Empty if the flags give neither hosts nor a hostfile, nor a
/// filter for localhost. Error(kConfig) says everything that is wrong, such as a hostfile that is
/// missing, a slot that no host has, or flags that make no sense without hosts.
std::vector<JobHost> hosts_of(const HostFlags& flags);

/// Whether ssh or mpirun is to reach hosts that the flags name.
bool reaches_hosts(const HostFlags& flags);

/// How many of hosts_of() are enough; 0: all except the spares.
int min_hosts_of(const HostFlags& flags);

/// Whether the list is localhost alone, without a user, a port or an address, so that no ssh is
/// needed.
bool is_this_machine(const std::vector<JobHost>& hosts);

}  // namespace hgt
