#pragma once

#include <cstdint>
#include <string>

#include "hgtrain/base/dtype.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/report/profile.h"
#include "hgtrain/train/run.h"

namespace hgt {

/// Records the spans of some steps of a run, the rare ones from its start to its end, and
/// leaves them in the run folder, rank 0 with their profile.
class TraceWindow {
 public:
  /// Records `options.record_steps` steps. The first two steps, which warm up, are not recorded if
  /// there are more. 0: nothing is recorded, and nothing happens here. `place`: the rank's in the
  /// layout, "" = none to tell.
  TraceWindow(const RunOptions& options, int rank, std::string place);
  ~TraceWindow();

  /// Measures what the profile compares with. All ranks measure at once because they compute at
  /// once.
  void measure_ceilings(Stream stream, DType compute_dtype);
  /// The run takes the steps from first_step + 1 to last_step.
  void plan(std::int64_t first_step, std::int64_t last_step);
  /// Comes before each step; once the recorded ones are over, what there is of them is written.
  void before_step(std::int64_t step);
  /// The run is over.
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
