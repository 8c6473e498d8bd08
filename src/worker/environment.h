#pragma once

#include <string>

namespace hgt {

/// Who a worker is, by the field's environment contract. Absent variables mean a worker on its own.
struct Environment {
  int rank = 0;        ///< RANK
  int local_rank = 0;  ///< LOCAL_RANK, of the ranks of this machine
  int world_size = 1;  ///< WORLD_SIZE
  int num_hosts = 1;   ///< GROUP_WORLD_SIZE
  int host = 0;        ///< GROUP_RANK, of these
  /// A host of the network in which the ranks speak: this one as HGTRAIN_ADDRESS, else MASTER_ADDR.
  std::string network_host = "127.0.0.1";
};

/// Error(kConfig) names a variable that is no number or out of range.
Environment read_environment();

}  // namespace hgt
