#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hgtrain/config/config.h"

namespace hgt {

/// A few layouts that are like the config's and fit its model and its sequences, nearest first,
/// each as what to set: "parallelism.tensor_parallel_size = 2 and zero_optimization.stage = 1".
/// `world_size`: that of the job, which their groups of ranks must divide; 0 if it is not known.
/// `fits_batch`: whether that number of data-parallel ranks can share the batch.
std::vector<std::string> neighbours_of(const Config& config, std::int64_t world_size,
                                       const std::function<bool(std::int64_t)>& fits_batch);

}  // namespace hgt
