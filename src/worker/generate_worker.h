#pragma once

#include <string>
#include <vector>

namespace hgt {

/// `hgtrain-worker generate`: continues a text. `args` are pairs "--name", value, all of them
/// given, which `hgtrain generate` passes on. Returns the exit status; an Error is printed in the
/// same form as hgtrain's own.
int generate_worker(const std::vector<std::string>& args);

}  // namespace hgt
