#pragma once

#include <span>

#include "hgtrain/tensor/tensor.h"

namespace hgt {

class ThreadPool;

/// out[i] = values[i], rounded to out's type (bf16 or fp16); out is contiguous and as long.
void round_to(std::span<const float> values, const Tensor& out, ThreadPool& pool);

}  // namespace hgt
