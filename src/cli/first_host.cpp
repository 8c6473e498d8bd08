#include "first_host.h"

#include <filesystem>

#include "hgtrain/base/file.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/launch/job.h"
#include "hgtrain/launch/remote_command.h"

#include "launched_run.h"

namespace hgt {
namespace {

constexpr std::int64_t kMaxSentBytes = 8 << 20;  // of a file: all must fit into one frame

}  // namespace

bool moves_to_first_host(bool detach, const std::vector<JobHost>& hosts) {
  return detach && !hosts.empty() && !received_command();
}

int run_on_first_host(const std::vector<JobHost>& hosts, const std::vector<std::string>& exports,
                      const std::vector<std::string>& files) {
  RemoteCommand command;
  command.words = own_command_line();
  command.words.erase(command.words.begin());
  command.folder = std::filesystem::current_path();
  command.environment = travelling_environment(exports);
  for (const std::string& file : files)
    if (!file.empty()) command.files[file] = read_input(file, kMaxSentBytes, ErrorKind::kConfig);
  return run_remotely(std::move(command), without_spares(hosts).at(0),
                      [](const std::string& text) { tell("hgtrain: {}\n", text); });
}

std::optional<std::string> received_file(const std::string& path) {
  const RemoteCommand* const command = received_command();
  if (!command) return std::nullopt;
  const auto file = command->files.find(path);
  return file == command->files.end() ? std::nullopt : std::optional(file->second);
}

}  // namespace hgt
