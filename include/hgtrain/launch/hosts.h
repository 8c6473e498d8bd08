#pragma once

#include <string>
#include <vector>

namespace hgt {

/// A host of a job, by the name that ssh knows it by.
struct JobHost {
  std::string name;
  int workers = 0;  ///< 0 = one per GPU that is visible there, else 1
};

/// "a,b:4,[fd00::1]:2": hosts, each with the number of its workers if that is given, in the order
/// of their ranks. Error(kConfig) names what is wrong: no host, a host given twice, a name that ssh
/// would take for an option, a count of 0 or none at all.
std::vector<JobHost> parse_hosts(const std::string& text);

/// A hostfile of DeepSpeed's: lines of the form "a slots=4", # begins a comment. Error(kConfig)
/// names every line of the file `path` that is wrong: DeepSpeed ignores what follows the number,
/// and takes no workers for a number.
std::vector<JobHost> parse_hostfile(const std::string& text, const std::string& path);

/// The hosts of --hosts or of --hostfile; none if neither is given. Error(kConfig) if both are, or
/// there is no such file.
std::vector<JobHost> hosts_of(const std::string& list, const std::string& hostfile);

}  // namespace hgt
