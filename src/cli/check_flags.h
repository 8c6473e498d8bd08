#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hgtrain/machine/visible_gpus.h"

namespace hgt {

/// Of --max_restarts.
inline constexpr std::int64_t kMaxRestarts = 1'000'000;

/// The free memory of this machine in bytes, or the limit of this process's control group if that
/// is lower; 0 if it is not known.
std::int64_t free_memory();

/// Error(kConfig) unless min <= value <= max.
void check_range(const char* flag, std::int64_t value, std::int64_t min, std::int64_t max,
                 const char* hint = "");

/// Error(kConfig) if both are given: --num_gpus and --num_workers.
void require_one_count(std::optional<std::int64_t> num_gpus,
                       std::optional<std::int64_t> num_workers);

/// The value of torchrun's --nproc_per_node: a number, "gpu" (one worker for each GPU that programs
/// see, and at least one), "cpu" (one for each core that this process may use), or "auto" (the
/// first if there is a GPU, else the second).
struct ProcessCount {
  std::optional<std::int64_t> number;  ///< nullopt = one for each GPU
  bool needs_gpu = false;
};
/// `is_here` is false if other machines count: "auto" is then one worker for each GPU, and "cpu" an
/// error. Error(kConfig) if `text` is anything else.
ProcessCount process_count(const char* flag, const std::string& text, bool is_here);

/// Error(kDevice) if `flag` makes a command take more bytes than are free of this machine's memory,
/// if that is known.
void check_memory(const char* flag, std::int64_t bytes);
/// The same for the memory of a GPU.
void check_memory(const char* flag, std::int64_t bytes, const VisibleGpu& gpu);

}  // namespace hgt
