#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hgtrain/base/dtype.h"

namespace hgt {

struct Config;

/// What a worker's process needs without anything to train.
inline constexpr std::int64_t kProcessBytes = 16 << 20;

/// The memory in bytes of all workers of a job on one machine's CPU: memory_table() and
/// kProcessBytes of each.
std::int64_t machine_bytes(const Config& config, int workers);
/// The page-locked host memory in bytes of all workers of a job on one machine's GPUs:
/// offloaded_memory() of each.
std::int64_t offloaded_bytes(const Config& config, int workers);

/// Whether a job fits into the available memory.
using Fits = std::function<bool(const Config&)>;

/// The largest micro-batch less than `below` that divides a worker's samples of a step and with
/// which the job fits; 0 if there is none.
std::int64_t largest_micro_batch(const Config& config, const Fits& fits,
                                 std::int64_t below = INT64_MAX);

/// A hint that names a few changes with which the job fits on the same workers, the ones that cost
/// the least time first. They are single settings, or pairs if no single setting suffices, or one
/// combination of settings that are all needed. Each has been checked against the plan. `narrow` is
/// the 16-bit type in which the device computes; `others` are further settings that are known to
/// suffice.
std::string how_to_fit(const Config& config, const Fits& fits, DType narrow,
                       std::vector<std::string> others = {});

}  // namespace hgt
