#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hgtrain/config/config.h"

namespace hgt {

/// A few layouts close to the config's that fit its model and its sequences, nearest first. Each is
/// a text that says what to set: "parallelism.tensor_parallel_size = 2 and zero_optimization.stage
/// = 1". `world_size`: the job's number of workers, which must be a multiple of the ranks that hold
/// one copy of the model; 0 if it is not known. `fits_batch`: whether that number of data-parallel
/// ranks can share the batch.
std::vector<std::string> neighbours_of(const Config& config, std::int64_t world_size,
                                       const std::function<bool(std::int64_t)>& fits_batch);

}  // namespace hgt
