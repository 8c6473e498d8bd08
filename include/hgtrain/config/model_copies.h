#pragma once

#include <cstdint>

#include "hgtrain/base/checked.h"
#include "hgtrain/config/parallelism_config.h"

namespace hgt {

/// How many workers hold one copy of the model together; all sizes are positive. Error(kConfig) if
/// the number overflows.
inline std::int64_t workers_of_model(const ParallelismConfig& config) {
  std::int64_t workers = 1;
  for (const std::int64_t size :
       {config.tensor_parallel_size, config.context_parallel_size, config.pipeline_parallel_size})
    workers = checked_mul(workers, size, "the number of workers", ErrorKind::kConfig);
  return workers;
}

/// How many copies of the model `workers` hold; 0 if they do not hold whole copies, or if the
/// config asks for another number of copies.
inline std::int64_t model_copies(const ParallelismConfig& config, std::int64_t workers) {
  const std::int64_t of_copy = workers_of_model(config), copies = workers / of_copy;
  const bool is_asked = config.data_parallel_size == 0 || config.data_parallel_size == copies;
  return workers % of_copy == 0 && is_asked ? copies : 0;
}

}  // namespace hgt
