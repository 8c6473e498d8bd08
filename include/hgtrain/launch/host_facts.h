#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "hgtrain/wire/frame.h"

namespace hgt {

/// What a host reports about itself before anything starts there, to find out whether a job can run
/// on it together with the others. It is the payload of a message from its agent. "" and 0 = not
/// known.
struct HostFacts {
  static constexpr MessageKind kKind = MessageKind::kHostFacts;
  std::string name;          ///< as the host calls itself
  std::string machine;       ///< id of its boot and network: equal for two names of one machine
  std::int64_t wall_ns = 0;  ///< its time since 1970 minus its now_ns()

  std::string cpu;
  std::int32_t cores = 0;  ///< on which programs may run
  std::int64_t memory_bytes = 0;
  std::int64_t shm_free_bytes = 0;  ///< of /dev/shm
  std::int64_t nofile = 0;          ///< soft limits, kUnlimited = none
  std::int64_t nproc = 0;           ///< soft limit; not for root
  std::int64_t memlock_bytes = 0;
  bool has_rdma = false;  ///< a port of InfiniBand or RoCE is active

  std::string disk;  ///< the folder of logs, or the next one above it that exists
  std::int64_t disk_free_bytes = 0;
  bool disk_is_read_only = false;

  std::string missing_program;  ///< of the launching shell's virtual environment, if asked for it

  /// An Error that ranks could not start there, because folder, interface, program or data are
  /// missing.
  std::string start_error;
  std::string start_hint;
  std::int32_t start_error_kind = 0;

  std::string missing_run_dir;  ///< Inspect::run_dir, if the host does not see it

  std::string interface;  ///< of the network in which its workers speak with others
  std::int32_t mtu = 0;
  bool lacks_address = false;  ///< Inspect::address is a number, and none of the host's

  std::string driver;                            ///< NVIDIA's
  std::map<std::string, std::string> libraries;  ///< CUDA's: "NCCL" -> "2.28.9", if asked for
  std::vector<std::string> gpus;                 ///< UUIDs of the GPUs that a program sees
  std::vector<std::string> gpu_names;            ///< names of `gpus`
  std::vector<std::string> all_gpus;             ///< UUIDs, in the driver's order

  std::string doctor;  ///< output of `hgtrain doctor --json` there, if asked for

  static auto fields(auto& m) {
    return std::tie(m.name, m.machine, m.wall_ns, m.cpu, m.cores, m.memory_bytes, m.shm_free_bytes,
                    m.nofile, m.nproc, m.memlock_bytes, m.has_rdma, m.disk, m.disk_free_bytes,
                    m.disk_is_read_only, m.missing_program, m.start_error, m.start_hint,
                    m.start_error_kind, m.missing_run_dir, m.interface, m.mtu, m.lacks_address,
                    m.driver, m.libraries, m.gpus, m.gpu_names, m.all_gpus, m.doctor);
  }
};

}  // namespace hgt
