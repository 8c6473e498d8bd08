#pragma once

#include <string>
#include <vector>

namespace hgt {

/// `hgtrain-worker generate`: continues a text. `args` are pairs "--name", value, all of them
/// given, as `hgtrain generate` passes them on. Returns the exit status; an Error is told as
/// hgtrain's own.
int generate_worker(const std::vector<std::string>& args);

}  // namespace hgt
