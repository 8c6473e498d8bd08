#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/launch/verdict.h"

namespace hgt {

/// A job on this machine: what to start, how often, and what to do with what comes back.
struct JobSpec {
  /// The command line of attempt 0, 1, ...; the first word is looked up in PATH. Never goes through
  /// a shell.
  std::function<std::vector<std::string>(int attempt)> argv;
  int num_workers = 1;
  /// Added to the environment the workers inherit, before the contract (RANK, ...) is.
  std::map<std::string, std::string> env;
  std::string run_id;   ///< "" = made up
  std::string run_dir;  ///< HGTRAIN_RUN_DIR, "" = none
  std::string log_dir;  ///< rank_N.log of every rank lies here, appended to; "" = no files
  int master_port = 0;  ///< 0 = one that is free

  /// The workers are hgtrain's: they must say hello on the control channel, are stopped by its
  /// `stop` command, and their exit codes mean what docs/exit-codes.md says. Otherwise any program:
  /// signals are passed on, exit codes are its own. A program that says hello unasked is treated as
  /// ours from then on, but for its exit codes.
  bool own_workers = false;
  /// Prints what the ranks print: their stdout to stdout, stderr to stderr, line by line, with
  /// "[rN] " in front where there is more than one.
  bool show_output = false;

  int max_restarts = 0;
  std::chrono::milliseconds grace{30'000};         ///< from SIGTERM to SIGKILL
  std::chrono::milliseconds stop_limit{1800'000};  ///< from the `stop` command to SIGTERM
  /// A rank whose step, phase, collective and work stand still for so long has hung; 0 = never. One
  /// that sends no heartbeat has after at most 30 s. Only where a rank has said hello.
  std::chrono::milliseconds hang_limit{600'000};

  /// What workers send ("started", "metrics", ...; see ControlChannel), and from the launcher
  /// itself "spawned" {pid} and "heartbeat" {phase} for each rank, and with rank -1 "notice" {text}
  /// and "stopping" {signal}, once, when a signal first asks for the end. On the thread of run_job.
  std::function<void(int rank, std::string_view kind, const nlohmann::json& body)> on_event;
};

/// The environment of one rank as it differs from the one inherited.
struct EnvironmentChange {
  std::map<std::string, std::string> set;
  std::vector<std::string> unset;
  std::vector<std::string>
      at_start;  ///< set to what is only known then: the port, the job key, ...
};
EnvironmentChange worker_environment(const JobSpec& spec, int rank, int attempt);

/// The file execve gets for `program`: as it stands where it has a slash, else from `path` (a
/// PATH). Error(kConfig) where there is none that can be run.
std::string find_program(const std::string& program, const std::string& path);

/// Runs the job to its end, restarts included, and says how it went. Blocks; call it from a thread
/// that lives as long (the main thread, best). Error where it could not start at all: the program
/// (kConfig), the port or the system's limits (kDevice), the log folder (kData).
///
/// Signals, while it runs: SIGTERM, SIGINT, SIGHUP, SIGUSR1 stop the job; SIGUSR2 asks for a
/// checkpoint; to programs that are not ours each is passed on instead, SIGQUIT too. A second
/// SIGINT kills. The handlers before are back on return.
///
/// No process of the job outlives it, nor this process, however it dies: each worker runs under a
/// guard that has its descendants as children (PR_SET_CHILD_SUBREAPER) and kills them all when the
/// worker ends or the stream to this process does. This process becomes a subreaper too while it
/// runs, against the death of a guard: what becomes its child meanwhile, and is none of the
/// guards, is killed.
///
/// Workers have no terminal and no input: each is a session of its own with /dev/null as stdin.
Verdict run_job(const JobSpec& spec);

}  // namespace hgt
