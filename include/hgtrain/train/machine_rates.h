#pragma once

#include "hgtrain/base/dtype.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"

namespace hgt {

// What a device can do at most, as far as a few milliseconds of trying tell: one that is busy does
// less. The stream is waited for.

/// Floating-point operations a second of matrix products, of `dtype` where the device multiplies
/// that by itself, else of fp32: the best of square products, tried for `budget_ms`; on the CPU of
/// a size that fits a cache.
double measure_matrix_rate(Stream stream, DType dtype, double budget_ms = 15);

/// Copies all of `to`'s size, on the CPU by all threads. Queued on another device.
void copy_all(const Buffer& from, const Buffer& to, Stream stream);

/// Bytes a second, read and written, of copies that do not fit a cache: the best of a few. Takes
/// 128 MiB of a CPU, 1 GiB of another device, for as long as it runs.
double measure_copy_rate(Stream stream);

}  // namespace hgt
