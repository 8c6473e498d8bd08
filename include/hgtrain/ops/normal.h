#pragma once

#include <cstdint>

#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// out = std times standard normal numbers (Box and Muller 1958, two of a pair of Philox words). An
/// element depends on (seed, stream_id, its index) alone, not on the number of threads.
///
///   first     the index of the first element
///   out  [N]  fp32, contiguous, written; on the CPU
void normal_fill(std::uint64_t seed, std::uint64_t stream_id, float std, std::int64_t first,
                 const Tensor& out, Stream stream);

}  // namespace hgt
