#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/launch/job.h"

namespace hgt {
namespace {

bool is_program(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

/// Why `path`, which was meant, cannot be run.
[[noreturn]] void refuse(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0)
    throw Error(ErrorKind::kConfig, fmt::format("there is no program {}", path));
  if (!S_ISREG(status.st_mode))
    throw Error(ErrorKind::kConfig,
                fmt::format("{} is not a program but a folder or device", path));
  throw Error(
      ErrorKind::kConfig, fmt::format("{} is not executable", path),
      fmt::format("`chmod +x {0}`, or start it through its interpreter: python3 {0}", path));
}

}  // namespace

std::string find_program(const std::string& program, const std::string& path) {
  if (program.empty()) throw Error(ErrorKind::kConfig, "the name of the program is empty");
  if (program.find('/') != std::string::npos) {
    if (!is_program(program)) refuse(program);
    return program;
  }
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    const std::string folder = path.substr(at, end - at);
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + program;
    if (is_program(candidate)) return candidate;
    at = end + 1;
  }
  const std::string here = "./" + program;
  throw Error(ErrorKind::kConfig, fmt::format("there is no program '{}' in PATH", program),
              is_program(here) ? fmt::format("type {}", here)
              : access(here.c_str(), F_OK) == 0
                  ? fmt::format("{0} is not executable: `chmod +x {0}`, or "
                                "start it through its interpreter: python3 {0}",
                                program)
                  : "");
}

}  // namespace hgt
