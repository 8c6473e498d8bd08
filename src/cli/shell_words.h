#pragma once

#include <string>
#include <vector>

namespace hgt {

/// The words as one would type them in a shell, quoted if the shell would not read them literally.
std::string shell_line(const std::vector<std::string>& words);

/// The command line that resumes a training from its run folder's newest checkpoint: the words
/// without their --resume, and --resume auto.
std::vector<std::string> resuming(const std::vector<std::string>& words);

}  // namespace hgt
