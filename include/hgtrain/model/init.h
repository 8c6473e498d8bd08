#pragma once

#include <cstdint>
#include <span>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/parallel/range.h"

namespace hgt {

class ThreadPool;

/// Fills `values` with a new model's initial values of `elements`, a range of the flat layout: each
/// parameter as its Init says, padding with zero. Normal numbers are keyed by (seed, the
/// parameter's name, element of the whole parameter), so they depend neither on the layout of the
/// buffer nor on other parameters nor on the number of tensor ranks.
void init_parameters(const ParameterTable& table, std::uint64_t seed, Range elements,
                     std::span<float> values, ThreadPool& pool, TensorRank tensor = {});

}  // namespace hgt
