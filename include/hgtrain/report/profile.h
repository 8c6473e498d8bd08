#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hgtrain/base/trace.h"

namespace hgt {

/// The machine's highest measured rates.
struct Ceilings {
  double flops_per_sec = 0;  ///< of matrix products
  double bytes_per_sec = 0;  ///< of copies, read and written
};

/// The rate of some work: FLOP/s if it counts floating-point operations, else bytes/s; and the rate
/// as a fraction of the ceiling. Both are zero if the work counts neither.
struct Speed {
  bool multiplies = false;
  double rate = 0, of_ceiling = 0;
};
Speed speed_of(const Work& work, double ms, const Ceilings& ceilings);

/// How the time of a rank's steps divides among its ops.
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
  double outside_ms = 0;  ///< the part of it outside all ops
  std::vector<Row> rows;  ///< the longest first
  Ceilings ceilings;
};

/// One op of a step.
struct OpCall {
  std::string op;  ///< its name, after that of the op that contains it: "linear_fwd gemm"
  double ms = 0;
  Work work;
};

/// The ops of thread "training" within spans "step", in their order. An op that contains others is
/// not listed; it only gives them the first part of their names.
std::vector<OpCall> op_calls(const std::vector<ThreadSpans>& threads);

/// Sums the ops of op_calls() by name.
Profile make_profile(const std::vector<ThreadSpans>& threads, const Ceilings& ceilings);

/// A table for people: calls and milliseconds per step, share of the step, the rate, and the rate's
/// share of the ceiling. That share exceeds 100% if data come from a cache.
std::string profile_table(const Profile& profile);

/// RUN/profile.json (docs/run-folder.md).
void write_profile(const std::string& run_dir, const Profile& profile);
/// Throws Error(kData) if there is no profile, or if it is damaged.
Profile read_profile(const std::string& run_dir);

}  // namespace hgt
