#pragma once

#include "hgtrain/base/dtype.h"
#include "hgtrain/comm/communicator.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"

namespace hgt {

// What a device can do at most, as far as some milliseconds of trying tell: one that is busy does
// less. The stream is waited for.

/// Floating-point operations a second of matrix products, of `dtype` if the device multiplies that
/// by itself, else of fp32: the best of square products of several sizes, tried for `budget_ms`.
double measure_matrix_rate(Stream stream, DType dtype, double budget_ms = 60);

/// Ranks on one machine may have more threads than it has cores. So that each core is counted once,
/// the first `measuring` ranks, whose threads have a core each, measure at once; the sum of what
/// they find, times `scale`, is the rate of all ranks.
struct CoreShare {
  int measuring = 1;
  double scale = 1;
};
CoreShare share_cores(int ranks, int threads, double cores);

/// The matrix rate of all ranks together, which mfu is a share of.
class PeakRate {
 public:
  /// Measures it; all ranks make theirs at the same place.
  PeakRate(Stream stream, DType dtype, Communicator& comm);
  /// The share of it that `flops` a second are. A CPU that does more was busy when the peak was
  /// measured: rank 0 then measures its own part again.
  double share(double flops);

 private:
  const Stream stream_;
  const DType dtype_;
  const bool measures_again_;
  double rank_flops_ = 0;   ///< of this rank
  double world_flops_ = 0;  ///< of all
};

/// Copies all of `to`'s size, on the CPU by all threads. Queued on another device.
void copy_all(const Buffer& from, const Buffer& to, Stream stream);

/// Bytes a second, read and written, of copies that do not fit a cache: the best of a few. Takes
/// 128 MiB of a CPU, 1 GiB of another device, for as long as it runs.
double measure_copy_rate(Stream stream);

}  // namespace hgt
