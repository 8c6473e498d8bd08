#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hgt {

inline constexpr std::int64_t kUnlimited = -1;
/// What makes matrix products fast, by Linux's names of "flags"; the CPU's model does not tell if
/// it is a virtual machine's.
inline constexpr std::array<std::string_view, 4> kFastInstructions{"avx2", "avx512f", "avx512_bf16",
                                                                   "amx_bf16"};
/// The usual limit of open files (nofile). A lower one is worth a notice.
inline constexpr std::int64_t kUsualFiles = 1024;

struct UserLimit {
  std::string name;                 ///< as `ulimit` and limits.conf call it: "nofile"
  std::int64_t soft = 0, hard = 0;  ///< bytes for memlock; kUnlimited
};

/// Processors, memory and limits of this process.
struct Resources {
  std::string cpu;  ///< the model's name
  /// Those of kFastInstructions that it has.
  std::vector<std::string_view> instructions;
  int cores = 0;         ///< of the machine
  int usable_cores = 0;  ///< on which this process may run
  double cpu_quota = 0;  ///< cores that its control group allows, in CPU time; 0 = no limit
  int numa_nodes = 0;
  std::int64_t memory_bytes = 0, available_bytes = 0;
  std::int64_t memory_limit_bytes = kUnlimited;    ///< of its control group
  std::int64_t shm_bytes = 0, shm_free_bytes = 0;  ///< /dev/shm; 0 = there is none
  std::vector<UserLimit> limits;                   ///< nofile, memlock, nproc
};

/// Reads /proc and /sys below `root` ("" is the machine); limits and usable cores are the
/// process's.
Resources resources_of(const std::string& root = "");

/// "model name" of the first processor, "unknown" if the system gives none.
std::string cpu_name(const std::string& root = "");
/// The names in `needed` that are not among the "flags" of the first processor. None if the system
/// lists no flags.
std::vector<std::string_view> missing_cpu_flags(std::span<const std::string_view> needed,
                                                const std::string& root = "");
/// Processors that this process may run on.
int usable_cores();
/// How many threads each of `workers` workers gets of these, at least one.
std::int64_t threads_per_worker(std::int64_t workers);

}  // namespace hgt
