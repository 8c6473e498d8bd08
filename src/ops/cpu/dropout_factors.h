#pragma once

#include <cstdint>

#include "hgtrain/ops/dropout.h"

namespace hgt::cpu {

/// factors[i] = 1 / (1 - probability) if element first + i of sample first_sample + row is kept,
/// else 0.
void dropout_factors(const Dropout& options, std::int64_t row, std::int64_t first,
                     std::int64_t count, float* factors);

}  // namespace hgt::cpu
