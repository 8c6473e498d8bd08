#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hgt {

struct ParallelismConfig {
  std::int64_t data_parallel_size = 0;  ///< 0 = the rest of the world
  std::int64_t tensor_parallel_size = 1;
  bool sequence_parallel = false;  ///< tensor ranks split the rows of activations that all have
  std::int64_t pipeline_parallel_size = 1;
  std::int64_t context_parallel_size = 1;
  std::string pipeline_schedule = "1f1b";    ///< 1f1b, gpipe, interleaved
  std::int64_t virtual_pipeline_stages = 1;  ///< of each stage; above 1 only if interleaved
  /// Layers of each stage, or of each virtual stage in their order; empty = balanced.
  std::vector<std::int64_t> pipeline_layer_split = {};
};

}  // namespace hgt
