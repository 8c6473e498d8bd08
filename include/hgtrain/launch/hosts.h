#pragma once

#include <string>
#include <vector>

namespace hgt {

/// A host of a job.
struct JobHost {
  std::string name = {};  ///< by which ssh knows it
  int workers = 0;        ///< 0 = one per GPU that is visible there, else 1
  std::string user = {};  ///< "" = the name's, or that of ssh's configuration
  int ssh_port = 0;       ///< 0 = that of ssh's configuration
  /// Where the other hosts reach it; "" = at the address of `interface`, or if that is "" too, at
  /// the one by which ssh reached it.
  std::string address = {};
  std::string interface = {};  ///< of the network in which its workers speak with others
  /// Numbers or UUIDs of the devices that its workers see, one for each; none: those that the
  /// host's own environment leaves.
  std::vector<std::string> devices = {};
  int min_gpus = 0;       ///< it cannot be used if programs see fewer there
  bool is_spare = false;  ///< runs no ranks until it takes those of a host that is lost
};

/// "a,b:4,n[01-16]:8,[fd00::1]:2": hosts, each with the number of its workers if that is given, in
/// the order of their ranks. Error(kConfig) names what is wrong: no host, a host given twice, a
/// name that ssh would take for an option, a count of 0 or none at all.
std::vector<JobHost> parse_hosts(const std::string& text);

/// A hostfile of DeepSpeed's, in which names may have ranges and hosts more keys: lines of the form
/// "n[01-16] slots=4 user=me"; # begins a comment. Error(kConfig) names everything that is wrong,
/// with the line of the file `path`: DeepSpeed ignores what follows the number, and takes no
/// workers for a number.
std::vector<JobHost> parse_hostfile(const std::string& text, const std::string& path);

/// Those that run ranks from the start.
std::vector<JobHost> without_spares(std::vector<JobHost> hosts);

/// The name without its user.
std::string bare_name(const std::string& name);
bool is_same_host(const std::string& a, const std::string& b);  ///< to DNS, A is a

}  // namespace hgt
