#include "environment_file.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/error_list.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/base/text.h"
#include "hgtrain/base/utf8.h"
#include "hgtrain/launch/job.h"
#include "hgtrain/launch/remote_command.h"

namespace hgt {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxBytes = 1 << 20;

std::string value_of_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

bool is_name(const std::string& text) {
  return !text.empty() && !std::isdigit(static_cast<unsigned char>(text[0])) &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

}  // namespace

std::map<std::string, std::string> parse_environment_file(const std::string& text,
                                                          const std::string& path) {
  std::map<std::string, std::string> out;
  ErrorList wrong;
  std::istringstream lines(std::string(without_byte_order_mark(text)));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    const std::string entry = trimmed(line);
    if (entry.empty() || entry[0] == '#') continue;
    const std::size_t equals = std::min(entry.find('='), entry.size());
    const std::string name = trimmed(entry.substr(0, equals));
    const auto refuse = [&](const std::string& why, const std::string& hint) {
      wrong.add({ErrorKind::kConfig, fmt::format("{}:{}: {}", path, number, why), hint});
    };
    if (equals == entry.size() || !is_name(name) || entry.find('\0') != std::string::npos)
      refuse("this line is not NAME=VALUE",
             entry.starts_with("export ") ? "leave out `export`"
                                          : "each line gives hosts a variable: NCCL_DEBUG=INFO");
    else if (const auto reserved = why_reserved(name))
      refuse(reserved->message(), reserved->hint());
    else
      out[name] = trimmed(entry.substr(equals + 1));
  }
  wrong.throw_if_any();
  return out;
}

std::vector<std::pair<std::string, std::string>> environment_files() {
  if (const RemoteCommand* const command = received_command()) return command->environment_files;
  const std::string named = value_of_variable("DS_ENV_FILE");
  const std::string name = named.empty() ? ".deepspeed_env" : named;
  std::vector<std::pair<std::string, std::string>> out;
  for (const std::string& folder : {std::string("."), value_of_variable("HOME")}) {
    const fs::path path = fs::path(folder) / name;
    std::error_code ignored;
    const bool is_known = folder != "." && fs::equivalent(path, fs::path(".") / name, ignored);
    if (!folder.empty() && !is_known && fs::is_regular_file(path, ignored))
      out.emplace_back(path, read_file(path, kMaxBytes, ErrorKind::kConfig));
  }
  if (out.empty() && !named.empty())
    throw Error(ErrorKind::kConfig,
                fmt::format("DS_ENV_FILE={}: there is no such file{}", named,
                            fs::path(named).is_absolute() ? "" : ", neither here nor in $HOME"),
                "correct it, or `unset DS_ENV_FILE`");
  return out;
}

std::map<std::string, std::string> variables_of_files(const HostFlags& flags) {
  std::map<std::string, std::string> out;
  if (!reaches_hosts(flags) && flags.launcher != "slurm") return out;
  for (const auto& [path, text] : environment_files()) {
    std::map<std::string, std::string> variables = parse_environment_file(text, path);
    std::vector<std::string> names;
    for (const auto& [name, value] : variables) names.push_back(name);
    tell("hgtrain: the hosts get the variables of {}: {}\n", path, fmt::join(names, " "));
    out.merge(variables);  // what an earlier file has stays
  }
  return out;
}

}  // namespace hgt
