#pragma once

#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

// Passes over flat buffers on the stream's device, contiguous and of any length. Bit-identical from
// run to run, and for any number of threads.

/// x = 0, fp32.
void clear(const Tensor& x, Stream stream);

/// out[0] = the sum of x, in fp64.
///
///   x    [N]  fp32
///   out  [1]  fp64, written
void sum(const Tensor& x, const Tensor& out, Stream stream);

}  // namespace hgt
