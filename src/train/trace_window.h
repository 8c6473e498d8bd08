#pragma once

#include <cstdint>
#include <string>

#include "hgtrain/base/dtype.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/report/profile.h"
#include "hgtrain/train/run.h"

namespace hgt {

/// Records the spans of some steps of a run, and rare spans from its start to its end, and writes
/// them to the run folder; rank 0 also writes their profile.
class TraceWindow {
 public:
  /// Records `options.record_steps` steps. The first two steps, which warm up, are not recorded if
  /// there are more. 0: nothing is recorded. `place`: the rank's place in the layout, may be "".
  TraceWindow(const RunOptions& options, int rank, std::string place);
  ~TraceWindow();

  /// Measures the rates with which the profile compares. All ranks measure at once because they
  /// compute at once.
  void measure_ceilings(Stream stream, DType compute_dtype);
  /// Call it once it is known that the run makes the steps from first_step + 1 to last_step.
  void plan(std::int64_t first_step, std::int64_t last_step);
  /// Call it before each step. After the last recorded step it writes the spans.
  void before_step(std::int64_t step);
  /// Call it when the run is over. Writes the spans.
  void finish();

 private:
  void write() const;  ///< if that fails, the rank's log says so

  const RunOptions options_;
  const int rank_;
  const std::string place_;
  Ceilings ceilings_;
  std::int64_t begin_ = 0, end_ = 0;  ///< the steps that are recorded: [begin, end)
};

}  // namespace hgt
