#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/launch/job.h"
#include "hgtrain/report/run_file.h"

namespace hgt {

/// The words by which this process was started.
std::vector<std::string> own_command_line();

/// The variable by which --launcher and the script of `submit slurm` tell the processes that they
/// start what the user has typed.
inline constexpr const char* kTypedCommand = "HGTRAIN_TYPED_COMMAND";
/// Its value for these words.
std::string typed_command_value(const std::vector<std::string>& words);
/// The words that the user typed to start the job: those of the variable if it is set, else
/// own_command_line(). The first call removes the variable from this process's environment.
const std::vector<std::string>& typed_command_line();

/// The part of run.json that is known before any run starts: this process and its command line.
RunFile new_run_file();
/// Adds how the run ended.
void conclude(RunFile& run, const Verdict& verdict);
/// The same for a job that could not start at all.
void conclude(RunFile& run, const Error& why);

/// A line for the user if other commands cannot reach the job through its socket, else "".
std::string unreachable(const JobSocket& socket);

/// Makes a job of `hgtrain launch` a run that other commands find, by run.json and the socket in
/// its --log_dir. If another job already uses that folder, they stay that job's.
class ProgramRun {
 public:
  /// Error(kConfig) if the folder is that of a training run, or of one that --detach has started on
  /// a host. `notice` gets what goes wrong with these files otherwise: none of that ends the job.
  /// But with `is_detached`, the job is refused if its folder cannot be used or is in use.
  ProgramRun(const JobSpec& spec, bool is_detached,
             std::function<void(const std::string& text)> notice);

  /// The hosts that run the ranks of the next attempt, each with its number of ranks.
  void set_hosts(const std::vector<JobHost>& hosts);
  JobSocket* socket() { return socket_ ? &*socket_ : nullptr; }
  /// `end` is a Verdict or an Error.
  template <class End>
  void finish(const End& end) {
    conclude(run_, end);
    write();
  }

 private:
  void write();

  const std::string folder_;
  const std::function<void(const std::string& text)> notice_;
  RunFile run_;
  std::optional<File> lock_;  // none: there is no folder, or it is in use
  std::optional<JobSocket> socket_;
};

}  // namespace hgt
