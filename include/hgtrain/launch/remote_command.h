#pragma once

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "hgtrain/launch/hosts.h"
#include "hgtrain/wire/frame.h"

namespace hgt {

/// A command of hgtrain that runs on another host as if it had been typed there.
struct RemoteCommand {
  static constexpr MessageKind kKind = MessageKind::kRemoteCommand;
  std::vector<std::string> words;                  ///< without the program
  std::string folder;                              ///< to work in
  std::map<std::string, std::string> environment;  ///< for that of the host's login shell
  std::map<std::string, std::string> files;        ///< what `words` name as files: path and content
  std::string program;                             ///< program_of_environment() of what it starts
  /// DeepSpeed's files of variables where the command was typed (environment_file.h).
  std::vector<std::pair<std::string, std::string>> environment_files;
  std::string host;       ///< where it runs, by the name that ssh knows
  std::string detach_id;  ///< RunFile::detach_id, if it is to start a run
  static auto fields(auto& m) {
    return std::tie(m.words, m.folder, m.environment, m.files, m.program, m.environment_files,
                    m.host, m.detach_id);
  }
};

/// Runs `command` there by ssh, and returns its exit code. Its stdout and stderr become those of
/// this process, which passes SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 on. If this
/// process or the connection ends first, the command gets SIGTERM. Blocks. `notice` gets what takes
/// long, such as sending this program. Error(kDevice) if the host cannot be used, Error(kPeer) if
/// the connection ends before the command.
int run_remotely(RemoteCommand command, const JobHost& host,
                 const std::function<void(const std::string& text)>& notice);

/// Whether run_remotely() has started this process with `words`.
bool is_remote(const std::vector<std::string>& words);
/// The other end of run_remotely(): takes the command from stdin and forks, so no thread may be
/// there yet. Returns in the child, in the command's folder and environment and with no input. The
/// parent waits for the child and ends with its exit code. Error(kConfig) if the folder or the
/// virtual environment is missing.
const RemoteCommand& receive_command();
/// The command that this process has received; nullptr if it was typed on this machine.
const RemoteCommand* received_command();

}  // namespace hgt
