#pragma once

#include <string>
#include <vector>

namespace hgt {

/// A host of a job, by the name that ssh knows it by.
struct JobHost {
  std::string name;
  int workers = 0;  ///< 0 = one per GPU that is visible there, else 1
};

/// "a,b:4": hosts, each with the number of its workers if that is given, in the order of their
/// ranks. Error(kConfig) names what is wrong: no host, a host given twice, a name that ssh would
/// take for an option, a count of 0 or none at all.
std::vector<JobHost> parse_hosts(const std::string& text);

}  // namespace hgt
