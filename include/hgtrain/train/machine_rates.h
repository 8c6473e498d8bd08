#pragma once

#include "hgtrain/base/dtype.h"
#include "hgtrain/device/thread_pool.h"

namespace hgt {

// What a pool of threads can do at most, as far as a few milliseconds of trying tell: a machine
// that is busy does less.

/// Floating-point operations a second of matrix products, of `dtype` where the CPU multiplies that
/// by itself, else of fp32: the best of square products that fit a cache, tried for `budget_ms`.
double measure_matrix_rate(ThreadPool& pool, DType dtype, double budget_ms = 15);

/// Bytes a second, read and written, of copies that do not fit a cache: the best of a few. Takes
/// 128 MiB for as long as it runs.
double measure_copy_rate(ThreadPool& pool);

}  // namespace hgt
