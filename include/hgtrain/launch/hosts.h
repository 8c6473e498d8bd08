#pragma once

#include <string>
#include <vector>

namespace hgt {

/// The most workers of a job on one host.
inline constexpr int kMaxWorkersOfHost = 1024;

/// A host of a job.
struct JobHost {
  std::string name = {};  ///< the name that ssh gets
  int workers = 0;        ///< 0 = one per GPU that is visible there, else 1
  std::string user = {};  ///< "" = the user in the name, else that of ssh's configuration
  int ssh_port = 0;       ///< 0 = that of ssh's configuration
  /// The address at which the other hosts reach it. "" = the address of `interface` or, if that is
  /// "" too, the one by which ssh reached it.
  std::string address = {};
  std::string interface = {};  ///< the network interface that its workers use to reach other hosts
  /// Numbers or UUIDs of the devices that its workers see, one for each. Empty: the devices that
  /// the host's own environment leaves visible.
  std::vector<std::string> devices = {};
  int min_gpus = 0;       ///< the host cannot be used if programs see fewer GPUs there
  bool is_spare = false;  ///< runs no ranks until it takes those of a host that is lost
};

/// "a,b:4,n[01-16]:8,[fd00::1]:2": hosts, each with the number of its workers if that is given, in
/// the order of their ranks. Error(kConfig) names what is wrong: no host, a host given twice, a
/// name that ssh would take for an option, a count of 0 or none at all.
std::vector<JobHost> parse_hosts(const std::string& text);

/// A hostfile of DeepSpeed's, in which names may have ranges and hosts more keys: lines of the form
/// "n[01-16] slots=4 user=me"; Open MPI's max_slots=N only limits slots, because no more workers
/// than these are started in any case; # begins a comment. Error(kConfig) names everything that is
/// wrong, with the line of the file `path`, also if DeepSpeed would accept it: text after the
/// number, and a number of 0.
std::vector<JobHost> parse_hostfile(const std::string& text, const std::string& path);

/// The hosts that run ranks from the start.
std::vector<JobHost> without_spares(std::vector<JobHost> hosts);

/// The name without its user.
std::string bare_name(const std::string& name);
bool is_same_host(const std::string& a, const std::string& b);  ///< ignores users and case

}  // namespace hgt
