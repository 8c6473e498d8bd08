#pragma once

#include <cstdint>

#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

// Passes over flat buffers on the stream's device, contiguous and of any length. The results are
// bit-identical from run to run, and for any number of threads.

/// x = 0, fp32. Does nothing if `unless` (in memory of the stream's device) is given and not 0.
void clear(const Tensor& x, Stream stream, const std::int32_t* unless = nullptr);

/// to = from if `first`, else to += from. Does nothing if `unless` (in memory of the stream's
/// device) is given and not 0.
///
///   from, to  [N]  fp32, which do not overlap
void accumulate(const Tensor& from, const Tensor& to, bool first, Stream stream,
                const std::int32_t* unless = nullptr);

/// out[0] = the sum of x, in fp64.
///
///   x    [N]  fp32
///   out  [1]  fp64, written
void sum(const Tensor& x, const Tensor& out, Stream stream);

}  // namespace hgt
