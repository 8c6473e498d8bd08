#pragma once

#include <string>
#include <vector>

namespace hgt {

/// The words as one would type them in a shell, quoted where it would read them otherwise.
std::string shell_line(const std::vector<std::string>& words);

/// A training's command line that goes on from its run folder's newest checkpoint: the words
/// without their --resume, and --resume auto.
std::vector<std::string> resuming(const std::vector<std::string>& words);

}  // namespace hgt
