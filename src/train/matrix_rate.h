#pragma once

#include "hgtrain/device/thread_pool.h"

namespace hgt {

/// Floating-point operations a second of this pool's fp32 matrix products: the best of many of
/// sizes that a layer has. Takes a fifth of a second.
double measure_matrix_rate(ThreadPool& pool);

}  // namespace hgt
