#include "program.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/launch/job.h"

#include "environment.h"

namespace hgt {
namespace {

namespace fs = std::filesystem;

bool is_program(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

/// The first program of that name in the folders of `path`; "" if there is none.
std::string look_up(const std::string& program, const std::string& path) {
  for (std::size_t at = 0; !program.empty() && at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    const std::string folder = path.substr(at, end - at);
    std::string candidate = (folder.empty() ? "." : folder) + "/" + program;
    if (is_program(candidate)) return candidate;
    at = end + 1;
  }
  return "";
}

/// The folder above bin/.
fs::path environment_of(const fs::path& program) {
  return fs::absolute(program).parent_path().parent_path();
}

bool is_in_environment(const std::string& program) {
  if (program.empty()) return false;
  const fs::path folder = environment_of(program);
  return fs::exists(folder / "pyvenv.cfg") || fs::exists(folder / "conda-meta");
}

/// The program of a file's #! line, with what follows it; "" if there is none.
std::string program_of_first_line(const std::string& path) {
  std::string line(128, '\0');
  std::ifstream(path).read(line.data(), static_cast<std::streamsize>(line.size()));
  line.erase(std::min(line.find_first_of(std::string_view("\r\n\0", 3)), line.size()));
  const bool printable =
      std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (!line.starts_with("#!") || !printable) return "";
  line.erase(0, std::max<std::size_t>(line.find_first_not_of(' ', 2), 2));
  for (const std::string_view skipped : {"/usr/bin/env ", "-S"})
    if (line.starts_with(skipped))
      line.erase(0, std::min(line.find_first_not_of(' ', skipped.size()), line.size()));
  return line;
}

/// What runs a script, by its name; "" if that is not known.
std::string interpreter_by_name(const std::string& path) {
  constexpr std::pair<std::string_view, std::string_view> kByName[] = {
      {".py", "python3"}, {".sh", "bash"},   {".pl", "perl"},
      {".jl", "julia"},   {".R", "Rscript"}, {".js", "node"}};
  for (const auto& [ending, program] : kByName)
    if (path.ends_with(ending)) return std::string(program);
  return "";
}

std::string how_to_run(const std::string& path) {
  const std::string typed = shell_word(path);
  constexpr auto kThrough = "start it through its interpreter: {} {}";
  const std::string make_executable = fmt::format("`chmod +x {}`", typed);
  if (const std::string own = program_of_first_line(path); !own.empty())
    return fmt::format("{}, or {}", make_executable, fmt::format(kThrough, own, typed));
  const std::string known = interpreter_by_name(path);
  return known.empty() ? make_executable : fmt::format(kThrough, known, typed);
}

/// If there is no program of that name, because it is a whole command.
std::string if_whole_command(const std::string& program) {
  return program.find(' ') == std::string::npos
             ? ""
             : "leave out the quotes: a program and its arguments are words of their own";
}

/// Where a link leads, over further links.
fs::path end_of_links(fs::path path) {
  constexpr int kMaxLinks = 40;  // Linux follows no more
  std::error_code error;
  for (int i = 0; i < kMaxLinks && fs::is_symlink(path, error); ++i)
    path = path.parent_path() / fs::read_symlink(path, error);
  return path;
}

/// Why `path`, where nothing is, cannot be run.
[[noreturn]] void refuse_missing(const std::string& path) {
  const fs::path end = end_of_links(path);
  if (end == path)
    throw Error(ErrorKind::kConfig, fmt::format("there is no program {}", path),
                if_whole_command(path));
  throw Error(ErrorKind::kConfig,
              fmt::format("{} is a link to {}, which is not there", path, end.string()),
              is_in_environment(path)
                  ? "the virtual environment needs the Python that it was made with, at that path"
                  : "");
}

/// Why `path`, which was meant, cannot be run.
[[noreturn]] void refuse_program(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) refuse_missing(path);
  if (!S_ISREG(status.st_mode))
    throw Error(ErrorKind::kConfig,
                fmt::format("{} is not a program but a folder or device", path));
  throw Error(ErrorKind::kConfig, fmt::format("{} is not executable", path), how_to_run(path));
}

}  // namespace

std::string first_line_hint(const std::string& path) {
  const std::string known = interpreter_by_name(path);
  return known.empty() ? "a script needs a first line like #!/bin/sh"
                       : fmt::format(
                             "a script needs a first line like #!/usr/bin/env {0}; or "
                             "start it through its interpreter: {0} {1}",
                             known, shell_word(path));
}

std::string program_of_environment(const JobSpec& spec) {
  const std::string command = spec.argv(0).at(0), path = search_path(spec);
  const bool is_path = command.find('/') != std::string::npos;
  const std::string file = is_path ? command : look_up(command, path);
  if (!is_path && is_in_environment(file)) return fs::absolute(file);
  const std::string line = file.empty() ? "" : program_of_first_line(file);
  const std::string interpreter = look_up(line.substr(0, line.find(' ')), path);
  return is_in_environment(interpreter) ? fs::absolute(interpreter).string() : "";
}

Error missing_environment(const std::string& host, const std::string& program) {
  const fs::path file(program);
  return {ErrorKind::kConfig,
          fmt::format("host {} has no {}: this shell takes {} from its virtual environment {}",
                      host, program, file.filename().string(), environment_of(file).string()),
          "put the environment on a disk that all hosts share, or make it at the same path there; "
          "or leave it (`deactivate`, `conda deactivate`), so that each host runs its own program"};
}

std::string find_program(const std::string& program, const std::string& path) {
  if (program.empty())
    throw Error(ErrorKind::kConfig, "the name of the program is empty",
                "name one: hgtrain launch -- python3 train.py");
  if (program.find('/') != std::string::npos) {
    if (!is_program(program)) refuse_program(program);
    return program;
  }
  if (std::string found = look_up(program, path); !found.empty()) return found;
  const std::string here = "./" + program;
  struct stat status {};
  const bool is_here = stat(here.c_str(), &status) == 0;
  if (is_here && !S_ISREG(status.st_mode)) refuse_program(program);
  throw Error(ErrorKind::kConfig, fmt::format("there is no program '{}' in PATH", program),
              is_program(here) ? "type " + shell_word(here)
              : is_here ? fmt::format("{} is not executable: {}", program, how_to_run(program))
                        : if_whole_command(program));
}

}  // namespace hgt
