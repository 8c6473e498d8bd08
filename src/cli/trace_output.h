#pragma once

#include <cstdint>
#include <string>

#include "train_plan.h"

namespace hgt {

/// The front's side of --trace and --profile: what workers record, and where it goes.
class TraceOutput {
 public:
  /// Looks whether the file can be written that is asked for, before any work is done:
  /// Error(kConfig) where not.
  explicit TraceOutput(const TrainFlags& flags);

  /// Steps for each worker to record: 0 where nothing is asked for.
  std::int64_t record_steps() const { return record_steps_; }
  /// Takes away what an earlier run left in the folder.
  void clear(const std::string& run_dir) const;
  /// The run is over: writes the trace, prints the profile. Error(kData) where the trace cannot be
  /// written.
  void finish(const std::string& run_dir, int workers) const;

 private:
  std::int64_t record_steps_ = 0;
  bool profile_ = false;
  std::string trace_;  ///< the file, "" where no trace is asked for
};

}  // namespace hgt
