#include <algorithm>
#include <fstream>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

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

/// What would run a file that is not executable: the program of its #! line, else by its name.
std::string interpreter_of(const std::string& path) {
  constexpr std::pair<std::string_view, std::string_view> kByName[] = {
      {".py", "python3"}, {".sh", "bash"},   {".pl", "perl"},
      {".jl", "julia"},   {".R", "Rscript"}, {".js", "node"}};
  std::string line(128, '\0');
  std::ifstream(path).read(line.data(), static_cast<std::streamsize>(line.size()));
  line.erase(std::min(line.find_first_of(std::string_view("\r\n\0", 3)), line.size()));
  const bool printable =
      std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (line.starts_with("#!") && printable) {
    line.erase(0, std::max<std::size_t>(line.find_first_not_of(' ', 2), 2));
    const std::string_view env = "/usr/bin/env ";
    return line.starts_with(env) ? line.substr(env.size()) : line;
  }
  for (const auto& [ending, program] : kByName)
    if (path.ends_with(ending)) return std::string(program);
  return "";
}

std::string how_to_run(const std::string& path) {
  const std::string interpreter = interpreter_of(path);
  return fmt::format("`chmod +x {}`", path) +
         (interpreter.empty()
              ? ""
              : fmt::format(", or start it through its interpreter: {} {}", interpreter, path));
}

/// Why `path`, which was meant, cannot be run.
[[noreturn]] void refuse_program(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0)
    throw Error(ErrorKind::kConfig, fmt::format("there is no program {}", path));
  if (!S_ISREG(status.st_mode))
    throw Error(ErrorKind::kConfig,
                fmt::format("{} is not a program but a folder or device", path));
  throw Error(ErrorKind::kConfig, fmt::format("{} is not executable", path), how_to_run(path));
}

}  // namespace

std::string find_program(const std::string& program, const std::string& path) {
  if (program.empty()) throw Error(ErrorKind::kConfig, "the name of the program is empty");
  if (program.find('/') != std::string::npos) {
    if (!is_program(program)) refuse_program(program);
    return program;
  }
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    const std::string folder = path.substr(at, end - at);
    std::string candidate = (folder.empty() ? "." : folder) + "/" + program;
    if (is_program(candidate)) return candidate;
    at = end + 1;
  }
  const std::string here = "./" + program;
  throw Error(ErrorKind::kConfig, fmt::format("there is no program '{}' in PATH", program),
              is_program(here) ? fmt::format("type {}", here)
              : access(here.c_str(), F_OK) == 0
                  ? fmt::format("{} is not executable: {}", program, how_to_run(program))
                  : "");
}

}  // namespace hgt
