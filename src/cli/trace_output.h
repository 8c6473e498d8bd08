#pragma once

#include <cstdint>
#include <string>

#include "train_flags.h"

namespace hgt {

/// The launcher's side of --trace and --profile: what workers record, and where it goes.
class TraceOutput {
 public:
  /// Checks before any work is done that the requested trace file can be written: Error(kConfig) if
  /// not.
  explicit TraceOutput(const TrainFlags& flags);

  /// How many steps each worker records: 0 if nothing is asked for.
  std::int64_t record_steps() const { return record_steps_; }
  /// Removes what an earlier run left in the folder.
  void clear(const std::string& run_dir) const;
  /// Call this once the run is over: it writes the trace and prints the profile. Error(kData) if
  /// the trace cannot be written.
  void finish(const std::string& run_dir, int workers) const;

 private:
  std::int64_t record_steps_ = 0;
  bool profile_ = false;
  std::string trace_;  ///< the file, "" if no trace is asked for
};

}  // namespace hgt
