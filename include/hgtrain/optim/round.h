#pragma once

#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// out[i] = values[i], rounded to out's type (bf16 or fp16); out is contiguous and as long.
void round_to(const Tensor& values, const Tensor& out, Stream stream);

}  // namespace hgt
