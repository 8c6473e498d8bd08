#pragma once

#include "hgtrain/base/dtype.h"
#include "hgtrain/comm/communicator.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"

namespace hgt {

// A device's highest rates, from measurements of some milliseconds. On a busy device they are too
// low. Each measurement waits for the stream.

/// Random numbers between -1 and 1 on the stream's device. They are random because a GPU multiplies
/// equal numbers with less power, and so at a higher clock rate than a model's numbers.
Buffer drawn_numbers(const char* name, std::int64_t count, DType dtype, Stream stream);

/// Floating-point operations a second of matrix products of such numbers, of `dtype` if the device
/// has instructions for that type, else of fp32: the best of square products of several sizes,
/// tried for `budget_ms`.
double measure_matrix_rate(Stream stream, DType dtype, double budget_ms = 60);

/// Ranks on one machine may have more threads than it has cores. So that each core is counted once,
/// only the first `measuring` ranks, whose threads have a core each, measure, all at the same time.
/// The sum of their rates, times `scale`, is the rate of all ranks.
struct CoreShare {
  int measuring = 1;
  double scale = 1;
};
CoreShare share_cores(int ranks, int threads, double cores);

/// The matrix rate of all ranks together: the peak of which mfu is a share.
class PeakRate {
 public:
  /// All ranks measure together.
  static PeakRate measure(Stream stream, DType dtype, Communicator& comm);
  /// `flops` a second as a share of the peak. If a CPU exceeds the peak, it was busy when the peak
  /// was measured: rank 0 then measures its own part again.
  double share(double flops);

 private:
  PeakRate(Stream stream, DType dtype, bool measures_again)
      : stream_(stream), dtype_(dtype), measures_again_(measures_again) {}

  Stream stream_;
  DType dtype_;
  bool measures_again_;
  double rank_flops_ = 0;   ///< of this rank
  double world_flops_ = 0;  ///< of all
};

/// Copies as many bytes as `to` has. On the CPU all threads copy; on another device the copy is
/// queued.
void copy_all(const Buffer& from, const Buffer& to, Stream stream);

/// Bytes a second, read and written, of copies that are larger than the caches: the best of a few.
/// While it runs it uses 128 MiB on a CPU, 1 GiB on another device.
double measure_copy_rate(Stream stream);

}  // namespace hgt
