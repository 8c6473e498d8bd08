#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hgtrain/launch/hosts.h"

namespace hgt {

/// What the user typed about the hosts of a job; "" or 0 = nothing.
struct HostFlags {
  std::string hosts = {};                         ///< parse_hosts()
  std::string hostfile = {};                      ///< the path of one
  std::optional<std::string> hostfile_text = {};  ///< of a hostfile on another machine
  /// "a@b:0,2-3": of the hosts, only a, and of b only these slots; or all but these. A slot is a
  /// number below the host's number of workers or, if the hostfile names its GPUs, one of these.
  std::string include = {}, exclude = {};
  /// "2": only the first two of the hosts. "1:2": the others are spares, and one is enough.
  std::string num_nodes = {};
  std::optional<std::int64_t> elastic_timeout = {};  ///< seconds
  std::optional<std::int64_t> num_workers = {};      ///< on each host: the first of its slots
  std::int64_t ssh_port = 0;                         ///< of hosts that name none
  std::string master_addr = {};                      ///< of the first host that is left
  int master_port = 0;                               ///< 0 = any free one

  /// Each host is started by itself: which of them this is (rendezvous_of()).
  bool no_ssh = false;  ///< the hosts are named all the same
  std::optional<std::int64_t> node_rank = {};
  bool shares_node = false;   ///< a scheduler has started several of the hosts on one machine
  std::string launcher = {};  ///< who starts them: "ssh", "slurm", ...
  std::string job_secret_file = {}, job_secret_env = {};
  std::optional<std::int64_t> join_timeout_seconds = {};
};

/// The hosts to run on, spares last; none if neither hosts nor hostfile are given, nor a filter of
/// localhost.
/// Error(kConfig) says everything that is wrong, such as a hostfile that is missing, a slot that no
/// host has, or flags that make no sense without hosts.
std::vector<JobHost> hosts_of(const HostFlags& flags);

/// How many of hosts_of() are enough; 0: all that are no spares.
int min_hosts_of(const HostFlags& flags);

/// Localhost alone, and nothing is said of a login or a network: no ssh is needed.
bool is_this_machine(const std::vector<JobHost>& hosts);

}  // namespace hgt
