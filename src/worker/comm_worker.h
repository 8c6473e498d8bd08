#pragma once

#include <string>
#include <vector>

namespace hgt {

/// `hgtrain-worker bench_comm`, one rank of it: `args` are auto or gloo, the op, the least and the
/// most bytes, how often, and text or json. Rank 0 sends the result to the launcher. Returns the
/// exit status.
int comm_worker(const std::vector<std::string>& args);

}  // namespace hgt
