#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hgtrain/config/config.h"

namespace hgt {

/// Bytes of all workers of a job on one machine's CPU: memory_table() of each, the copy for a
/// checkpoint once, and what a process takes that has nothing to train.
std::int64_t machine_bytes(const Config& config, int workers);

/// Whether a job fits the memory there is.
using Fits = std::function<bool(const Config&)>;

/// The largest micro-batch less than `below` into which a worker's samples of a step can be cut and
/// with which the job fits; 0 if none does.
std::int64_t largest_micro_batch(const Config& config, const Fits& fits,
                                 std::int64_t below = INT64_MAX);

/// Settings that make a job fit, each by itself, or if none does, all together, as a hint; none of
/// them is on already. `narrow` is the 16-bit type that the device computes in, `others` are ways
/// that are known to be enough.
std::string how_to_fit(const Config& config, const Fits& fits, DType narrow,
                       std::vector<std::string> others = {});

}  // namespace hgt
