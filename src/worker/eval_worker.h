#pragma once

#include <string>
#include <vector>

namespace hgt {

/// `hgtrain-worker eval WEIGHTS SAMPLES CONFIG`: a rank of an evaluation; CONFIG is the resolved
/// config as JSON. Rank 0 sends "result" {loss} up the channel. The exit status.
int eval_worker(const std::vector<std::string>& args);

}  // namespace hgt
