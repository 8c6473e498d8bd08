#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hgtrain/launch/host_choice.h"
#include "hgtrain/launch/hosts.h"

namespace hgt {

/// How the nodes of a job meet if the command was started on each of them, by hand or by a
/// scheduler: node 0 coordinates the job, and the others dial it over TLS 1.3 with a key that both
/// ends derive from the job's secret.
struct Rendezvous {
  int node = 0;                            ///< number of this node, or kAnyNode
  std::string address = {};                ///< of node 0: a name or a number
  int port = 29500;                        ///< the port on which node 0 listens
  std::shared_ptr<OwnedFd> listener = {};  ///< already listens on `port`; null: nothing does yet
  std::string secret = {};                 ///< only the nodes know it; no worker gets it
  std::chrono::seconds join_timeout{600};  ///< for all nodes to join, or for as many as are enough
  bool shares_output = false;              ///< HostFlags::shares_output
  bool shares_node = false;                ///< HostFlags::shares_node
  bool trains = false;                     ///< the workers are hgtrain's
  bool rejoins = false;  ///< a node that has lost node 0 dials it again, for as long
  /// The config of the job as this node's command gives it, by key; empty if it names none, or if
  /// this node has no such file. Only node 0's counts; it names what differs.
  std::map<std::string, std::string> config = {};
  /// What else the command says about the job, by flag. Only node 0's counts; it names what another
  /// node says otherwise.
  std::map<std::string, std::string> settings = {};
};

/// Completes the flags of one of several nodes: the number of this node, how many nodes there are,
/// and where node 0 is. --node_rank gives the number, or the environment of a task that srun,
/// mpirun or a Kubernetes Job has started; else --rdzv_endpoint, because node 0 is the one that can
/// listen there, and listens from then on. Error(kConfig) if the flags name hosts without --no_ssh,
/// or another number of them.
void find_own_node(HostFlags& flags);

/// How `hosts` = hosts_of(flags) meet, still without the secret. nullopt if ssh reaches them, or if
/// there is only one. Error(kConfig) says everything that is wrong.
std::optional<Rendezvous> rendezvous_of(const HostFlags& flags, const std::vector<JobHost>& hosts);

/// The secret that the flags name. One of a variable is removed from this process's environment.
/// Error(kConfig) if there is none, if it is too short, or if other users can read it.
std::string take_job_secret(const HostFlags& flags);

/// An id that is equal for nodes that share a machine; "" if no nodes share one.
std::string machine_of(const Rendezvous& rendezvous);

/// Runs the ranks of a node other than 0, which it dials until the join timeout. Blocks until the
/// job ends, and returns its exit code. Signals that arrive meanwhile are passed on to the whole
/// job; while node 0 is not there, they end this node as they would end the job. Error(kPeer) if
/// node 0 cannot be reached or is lost, Error(kConfig) if it refuses this node.
int run_node(const Rendezvous& rendezvous, const std::vector<JobHost>& hosts);

}  // namespace hgt
