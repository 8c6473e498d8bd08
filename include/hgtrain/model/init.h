#pragma once

#include <cstdint>
#include <span>

#include "hgtrain/arch/model_spec.h"

namespace hgt {

class ThreadPool;

/// Fills `flat` (table.total elements) with the initial values of a new model: each parameter as
/// its Init says, padding with zero. Normal numbers are keyed by (seed, the parameter's name,
/// element), so they depend neither on the layout of the buffer nor on other parameters.
void init_parameters(const ParameterTable& table, std::uint64_t seed, std::span<float> flat,
                     ThreadPool& pool);

}  // namespace hgt
