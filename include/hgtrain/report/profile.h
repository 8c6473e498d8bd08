#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hgtrain/base/trace.h"

namespace hgt {

/// What the machine can do at most, as measured.
struct Ceilings {
  double flops_per_sec = 0;  ///< of matrix products
  double bytes_per_sec = 0;  ///< of copies, read and written
};

/// What work comes to in a time: FLOP/s where it multiplies, else bytes/s, and how much of what is
/// possible that is; zeros where none is counted.
struct Speed {
  bool multiplies = false;
  double rate = 0, of_ceiling = 0;
};
Speed speed_of(const Work& work, double ms, const Ceilings& ceilings);

/// What the time of a rank's steps went into.
struct Profile {
  struct Row {
    std::string op;
    std::int64_t calls = 0;
    double ms = 0;
    Work work;
  };
  std::int64_t first_step = 0;
  std::int64_t steps = 0;
  double total_ms = 0;    ///< of these steps
  double outside_ms = 0;  ///< of it, in no op
  std::vector<Row> rows;  ///< the longest first
  Ceilings ceilings;
};

/// One op of a step.
struct OpCall {
  std::string op;  ///< "linear_fwd gemm": within which op, and which
  double ms = 0;
  Work work;
};

/// The ops of thread "training" within spans "step", in their order. One that others are within
/// counts as their name only.
std::vector<OpCall> op_calls(const std::vector<ThreadSpans>& threads);

/// What they add up to.
Profile make_profile(const std::vector<ThreadSpans>& threads, const Ceilings& ceilings);

/// A table for people: calls and milliseconds a step, share of the step, and the rate and its share
/// of the ceiling, which data from a cache exceed.
std::string profile_table(const Profile& profile);

/// RUN/profile.json (docs/run-folder.md).
void write_profile(const std::string& run_dir, const Profile& profile);
/// Error(kData) where there is none, or it is damaged.
Profile read_profile(const std::string& run_dir);

}  // namespace hgt
