#pragma once

#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// out[i] = values[i], rounded to out's type: fp32, bf16 or fp16; on a GPU, one of the two must be
/// fp32. Both are contiguous and equally long.
void round_to(const Tensor& values, const Tensor& out, Stream stream);

}  // namespace hgt
