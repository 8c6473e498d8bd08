#pragma once

#include <cstdint>
#include <span>

namespace hgt {

class ThreadPool;

/// L2 norm of a flat buffer, squares summed in fp64 in an order that depends on the buffer's size
/// alone. Not finite exactly where an element is not finite.
double l2_norm(std::span<const float> values, ThreadPool& pool);

/// What gradients of norm `norm` are multiplied with so that theirs is at most `clip`:
/// min(1, clip / (norm + 1e-6)), as PyTorch and DeepSpeed have it; 1 where `clip` is 0.
double clip_factor(double norm, double clip);

/// Index of the first element that is infinite or not a number; -1 where there is none.
std::int64_t first_non_finite(std::span<const float> values);

}  // namespace hgt
