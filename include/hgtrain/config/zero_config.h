#pragma once

#include <cstdint>
#include <string>

namespace hgt {

/// Section `zero_optimization`.
struct ZeroConfig {
  std::int64_t stage = 0;
  // The largest numbers of elements: in one sum of gradients, in one gathering of parameters,
  // gathered ahead of use, and gathered at a time.
  std::int64_t reduce_bucket_size = 500'000'000;
  std::int64_t allgather_bucket_size = 500'000'000;
  std::int64_t prefetch_bucket_size = 50'000'000;
  std::int64_t max_live_parameters = 1'000'000'000;
  std::string offload_optimizer = "none";  ///< none, cpu
  std::string offload_param = "none";      ///< none, cpu
};

}  // namespace hgt
