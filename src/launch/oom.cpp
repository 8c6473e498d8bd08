#include "oom.h"

#include <fstream>
#include <sstream>
#include <vector>

namespace hgt {
namespace {

/// The number after the word `oom_kill` in a file of lines "name number".
std::optional<long> counter_in(const std::string& path) {
  std::ifstream file(path);
  std::string name;
  for (long value; file >> name >> value;)
    if (name == "oom_kill") return value;
  return std::nullopt;
}

/// Files with the counter of this process's control group, nearest first.
std::vector<std::string> counter_files(const std::string& root) {
  std::vector<std::string> out;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // HIERARCHY:CONTROLLERS:PATH
    std::istringstream fields(line);
    std::string hierarchy, controllers, path;
    std::getline(fields, hierarchy, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, path);
    if (path == "/") path.clear();
    if (controllers.empty())
      out.push_back(root + "/sys/fs/cgroup" + path + "/memory.events");
    else if (("," + controllers + ",").find(",memory,") != std::string::npos)
      out.push_back(root + "/sys/fs/cgroup/memory" + path + "/memory.oom_control");
  }
  out.push_back(root + "/proc/vmstat");
  return out;
}

}  // namespace

std::optional<long> oom_kills(const std::string& root) {
  for (const std::string& path : counter_files(root))
    if (const auto value = counter_in(path)) return value;
  return std::nullopt;
}

}  // namespace hgt
