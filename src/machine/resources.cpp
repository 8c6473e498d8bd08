#include "hgtrain/machine/resources.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <sched.h>
#include <sstream>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fmt/format.h>

#include "folder_entries.h"

namespace hgt {
namespace {

namespace fs = std::filesystem;

/// The bytes in a line "MemTotal:  8065444 kB".
std::int64_t meminfo(const std::string& root, const std::string& name) {
  std::ifstream file(root + "/proc/meminfo");
  std::string word;
  for (std::int64_t kib = 0; file >> word >> kib; file.ignore(1 << 10, '\n'))
    if (word == name + ":") return kib * 1024;
  return 0;
}

/// This process's control group (version 2) and those above it, nearest first.
std::vector<fs::path> control_groups(const std::string& root) {
  std::vector<fs::path> out;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);)
    if (line.starts_with("0::/"))
      for (fs::path at = line.substr(3);; at = at.parent_path()) {
        out.push_back(root + "/sys/fs/cgroup" + at.string());
        if (at == "/") break;
      }
  return out;
}

/// The cores in a line "150000 100000" (microseconds of a period); 0 for "max 100000".
std::optional<double> quota_in(const fs::path& group) {
  double time = 0, period = 0;
  std::ifstream file(group / "cpu.max");
  if (file >> time >> period && period > 0) return time / period;
  return std::nullopt;
}

std::optional<std::int64_t> memory_limit_in(const fs::path& group) {
  std::int64_t bytes = 0;
  std::ifstream file(group / "memory.max");
  if (file >> bytes) return bytes;
  return std::nullopt;
}

int count_numa_nodes(const std::string& root) {
  int count = 0;
  for (const fs::path& entry : folder_entries(root + "/sys/devices/system/node")) {
    const std::string name = entry.filename();
    count += name.starts_with("node") && name.find_first_not_of("0123456789", 4) > name.size();
  }
  return std::max(count, 1);
}

UserLimit limit(const char* name, __rlimit_resource_t resource) {
  rlimit found{};
  ::getrlimit(resource, &found);
  const auto number = [](rlim_t value) {
    return value == RLIM_INFINITY ? kUnlimited : static_cast<std::int64_t>(value);
  };
  return {name, number(found.rlim_cur), number(found.rlim_max)};
}

/// "" if /proc/cpuinfo has no such line.
std::string value_of_first_cpu(std::string_view key, const std::string& root) {
  std::ifstream cpus(root + "/proc/cpuinfo");
  for (std::string line; std::getline(cpus, line);)
    if (const std::size_t colon = line.find(": ");
        line.starts_with(key) && colon != std::string::npos)
      return line.substr(colon + 2);
  return "";
}

/// The "flags" of the first processor.
class CpuFlags {
 public:
  explicit CpuFlags(const std::string& root)
      : flags_(fmt::format(" {} ", value_of_first_cpu("flags", root))) {}
  bool are_known() const { return flags_ != "  "; }
  bool has(std::string_view flag) const {
    return flags_.find(fmt::format(" {} ", flag)) != std::string::npos;
  }

 private:
  std::string flags_;
};

}  // namespace

std::string cpu_name(const std::string& root) {
  const std::string name = value_of_first_cpu("model name", root);
  return name.empty() ? "unknown" : name;
}

std::vector<std::string_view> missing_cpu_flags(std::span<const std::string_view> needed,
                                                const std::string& root) {
  const CpuFlags flags(root);
  std::vector<std::string_view> missing;
  if (flags.are_known())
    for (const std::string_view flag : needed)
      if (!flags.has(flag)) missing.push_back(flag);
  return missing;
}

int usable_cores() {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

std::int64_t threads_per_worker(std::int64_t workers) {
  return std::max<std::int64_t>(1, usable_cores() / workers);
}

Resources resources_of(const std::string& root) {
  Resources out;
  out.cpu = cpu_name(root);
  std::ranges::copy_if(kFastInstructions, std::back_inserter(out.instructions),
                       [flags = CpuFlags(root)](std::string_view flag) { return flags.has(flag); });
  out.cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  out.usable_cores = usable_cores();
  out.numa_nodes = count_numa_nodes(root);
  out.memory_bytes = meminfo(root, "MemTotal");
  out.available_bytes = meminfo(root, "MemAvailable");
  for (const fs::path& group : control_groups(root)) {  // the lowest limit counts
    if (const auto quota = quota_in(group))
      out.cpu_quota = out.cpu_quota > 0 ? std::min(out.cpu_quota, *quota) : *quota;
    if (const auto bytes = memory_limit_in(group))
      out.memory_limit_bytes =
          out.memory_limit_bytes == kUnlimited ? *bytes : std::min(out.memory_limit_bytes, *bytes);
  }
  struct statvfs shm {};
  if (::statvfs((root + "/dev/shm").c_str(), &shm) == 0) {
    out.shm_bytes = static_cast<std::int64_t>(shm.f_blocks * shm.f_frsize);
    out.shm_free_bytes = static_cast<std::int64_t>(shm.f_bavail * shm.f_frsize);
  }
  out.limits = {limit("nofile", RLIMIT_NOFILE), limit("memlock", RLIMIT_MEMLOCK),
                limit("nproc", RLIMIT_NPROC)};
  return out;
}

}  // namespace hgt
