#include "first_host.h"

#include <filesystem>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/launch/job.h"
#include "hgtrain/launch/remote_command.h"

#include "detached_run.h"
#include "environment_file.h"
#include "launched_run.h"

namespace hgt {
namespace {

constexpr std::int64_t kMaxSentBytes = 8 << 20;  // of a file: all must fit into one frame

}  // namespace

bool moves_to_first_host(bool detach, const std::vector<JobHost>& hosts) {
  return detach && !hosts.empty() && !received_command();
}

int run_on_first_host(const std::vector<JobHost>& hosts, const std::vector<std::string>& exports,
                      const std::vector<std::string>& files, const std::string& program,
                      const std::string& run, const std::string& flag) {
  const JobHost first = without_spares(hosts).at(0);
  refuse_run_elsewhere(run, flag, first.name);
  RemoteCommand command;
  command.words = own_command_line();
  command.words.erase(command.words.begin());
  command.folder = std::filesystem::current_path();
  command.program = program;
  command.environment = travelling_environment(exports);
  for (const std::string& file : files)
    if (!file.empty()) command.files[file] = read_input(file, kMaxSentBytes, ErrorKind::kConfig);
  command.environment_files = environment_files();
  command.detach_id = random_suffix();
  const std::string id = command.detach_id;
  const int exit_code = run_remotely(std::move(command), first,
                                     [](const std::string& text) { tell("hgtrain: {}\n", text); });
  if (exit_code != 0) {
    if (exit_code < kExitStoppedEarly)
      tell("hgtrain: so says host {}, on which --detach starts the launcher\n", first.name);
    return exit_code;
  }
  try {
    write_detached_run(run, first, id);
  } catch (const Error& e) {
    tell("hgtrain: status, attach, logs and stop reach the run only on host {}: {}\n", first.name,
         e.message());
  }
  return 0;
}

std::optional<std::string> received_file(const std::string& path) {
  const RemoteCommand* const command = received_command();
  if (!command) return std::nullopt;
  const auto file = command->files.find(path);
  return file == command->files.end() ? std::nullopt : std::optional(file->second);
}

}  // namespace hgt
