#pragma once

#include <string>
#include <vector>

namespace hgt {

/// Files of this machine that other hosts of a job get at the same paths if they lack them.
struct PushedFiles {
  std::vector<std::string> for_all;
  std::vector<std::string> with_run_folder;  ///< only for hosts that see JobSpec::shared_file
};

}  // namespace hgt
