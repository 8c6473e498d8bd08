#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hgt {

/// The identity of a worker, from the environment variables that torchrun also sets. Without them,
/// the worker is on its own.
struct Environment {
  int rank = 0;        ///< RANK
  int local_rank = 0;  ///< LOCAL_RANK, of the ranks of this machine
  int world_size = 1;  ///< WORLD_SIZE
  int num_hosts = 1;   ///< GROUP_WORLD_SIZE
  int host = 0;        ///< GROUP_RANK, the number of this host
  int restarts = 0;    ///< TORCHELASTIC_RESTART_COUNT
  /// HGTRAIN_HAS_JOINED_HOSTS: this restart is made only to let hosts join, and can be made without
  /// them.
  bool has_joined_hosts = false;
  /// HGTRAIN_NEEDED_CHECKPOINTS: the steps of those to which the job may have to go back.
  std::vector<std::int64_t> needed_steps = {};
  /// A host in the network that the ranks use: HGTRAIN_ADDRESS, which is this host's address, else
  /// MASTER_ADDR.
  std::string network_host = "127.0.0.1";
};

/// Error(kConfig) names a variable that is not a number, or is out of range.
Environment read_environment();

}  // namespace hgt
