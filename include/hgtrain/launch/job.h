#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/launch/hosts.h"
#include "hgtrain/launch/job_socket.h"
#include "hgtrain/launch/pushed_files.h"
#include "hgtrain/launch/rank_set.h"
#include "hgtrain/launch/rendezvous.h"
#include "hgtrain/launch/verdict.h"

namespace hgt {

/// A job: the command to start, where, the number of restarts, and the handling of output and
/// events.
struct JobSpec {
  /// The command line of attempt 0, 1, ...; the first word is looked up in PATH. Never goes through
  /// a shell.
  std::function<std::vector<std::string>(int attempt)> argv;
  int num_workers = 1;  ///< ignored if there are `hosts`
  /// The hosts on which the workers run, which ssh reaches and which have this program at the same
  /// path. Empty: this machine. If a host is lost, a spare takes its ranks. If there are spares or
  /// `min_hosts`, a restart after the loss of a host does not count against max_restarts, unless as
  /// many hosts as there are have been lost without progress in between.
  std::vector<JobHost> hosts;
  bool is_on_first_host = false;  ///< this machine is the first of `hosts` that is no spare: no ssh
  /// The hosts are nodes that dial this process (run_node()), which is the first of them.
  std::optional<Rendezvous> rendezvous;
  /// The number of hosts that are enough; 0: all except the spares. The ranks of missing hosts are
  /// left out, and further ranks at the end until is_valid_world() is true for their number. When
  /// hosts are back, hgtrain's workers are stopped after their next checkpoint, and the next
  /// attempt has more ranks.
  int min_hosts = 0;
  std::function<bool(int num_workers)> is_valid_world;  ///< empty: any number is valid
  /// How long an attempt after the first waits for hosts without which it cannot begin. Nodes that
  /// dial have Rendezvous::join_timeout for that.
  std::chrono::milliseconds elastic_timeout{600'000};
  /// Variables of this shell that the hosts get, in addition to travelling_environment().
  std::vector<std::string> exports;
  /// Variables added to the environment that the workers inherit. The variables that hgtrain sets
  /// for each rank (RANK, ...) are added after them.
  std::map<std::string, std::string> env;
  std::string run_id;        ///< "" = a generated one
  std::string run_dir;       ///< HGTRAIN_RUN_DIR, "" = none
  std::string shared_file;   ///< a file that the first of `hosts` must see, "" = none
  PushedFiles pushed_files;  ///< files that `hosts` get before they run ranks
  /// Token files of this machine, as in a config, that `hosts` must have unless files are pushed.
  std::vector<std::string> token_files;
  std::string script;   ///< a file that the command reads, and that `hosts` must have, "" = none
  std::string log_dir;  ///< folder of the rank_N.log files, which are appended to; "" = no files
  int master_port = 0;  ///< 0 = any free port

  /// True: the workers are hgtrain's. They must send a hello on the control channel, are stopped by
  /// its `stop` command, and their exit codes have the meaning of docs/exit-codes.md. False: any
  /// program. Signals are passed on to it, and its exit codes are its own. If such a program sends
  /// a hello, it is treated as hgtrain's worker from then on, except for its exit codes.
  bool own_workers = false;
  /// Prints what these ranks print: their stdout to stdout, their stderr to stderr. If the job has
  /// more than one rank, whole lines are printed, each after "[r3] ", or once after "[ranks 0-7] "
  /// if several ranks print the same at nearly the same time. Error(kConfig) at the start if the
  /// job has not all of them, unless their number may change (`min_hosts`).
  RankSet shown_ranks;
  /// Of these, only the ranks whose number on their host is in it: for stdout, and for stderr.
  std::array<RankSet, 2> shown_local_ranks{RankSet::all(), RankSet::all()};

  /// The most restarts after failures without progress in between. Progress is a checkpoint of a
  /// later step than any before, which workers report with the event "checkpoint" {step}. A program
  /// that sends no events makes no progress in this sense.
  int max_restarts = 0;
  std::chrono::milliseconds grace{30'000};         ///< from SIGTERM to SIGKILL
  std::chrono::milliseconds stop_limit{1800'000};  ///< from the `stop` command to SIGTERM
  /// The ranks hang if the step, phase, collective and work of none change for this long, or for
  /// ten times as long as they ever did in earlier steps or evaluations (at least a tenth of this
  /// and 5 s); and a rank hangs if it sends no heartbeat for this long or 30 s, whichever is
  /// shorter. Only ranks that have sent a hello are watched; 0 = none.
  std::chrono::milliseconds hang_limit{600'000};
  /// A host counts as lost if no message comes from it for this long.
  std::chrono::milliseconds host_lease{15'000};
  /// A host that cannot be used is called again after this long, if the job can still use it.
  std::chrono::milliseconds call_period{15'000};

  /// Called before each attempt of a job on `hosts`, with those that run its ranks, in the order of
  /// the ranks, each with their number.
  std::function<void(const std::vector<JobHost>& hosts)> on_hosts;

  /// Called on the thread of run_job with each event that a worker sends ("started", "metrics",
  /// ...; see ControlChannel), and with the launcher's own events: "spawned" {pid} and "heartbeat"
  /// {phase} for each rank; with rank -1, "notice" {text}, "restarting", "goes_back" {checkpoint}
  /// (the next attempt has to resume from this one), "stopping" {signal}, once, for the first
  /// signal that asks the job to stop, and "killing": the user wants it to end at once.
  std::function<void(int rank, std::string_view kind, const nlohmann::json& body)> on_event;

  /// Called on the thread of run_job with how the job ended, restarts included, before run_job
  /// returns the same. What it prints can still wait for a reader without standing still. May be
  /// empty; not called if run_job throws.
  std::function<void(const Verdict& verdict)> on_end;

  /// The socket by which other commands reach the job; nullptr = they cannot. It must outlive
  /// run_job().
  JobSocket* socket = nullptr;
  /// Adds to the status that other commands get what only the owner of the spec knows; may be
  /// empty.
  std::function<void(nlohmann::json& status)> add_status;
};

/// The place of a rank on its host, and of that host among the hosts.
struct RankPlace {
  int local_rank = 0;
  int local_size = 1;
  int host = 0;
  int num_hosts = 1;
  std::string master_addr = "127.0.0.1";
  std::string address = {};  ///< the address at which other hosts reach this one, "" = not given
  int core_sharers = 0;      ///< ranks among which the usable cores are divided; 0 = local_size
};

/// The differences between the environment of one rank and the inherited one.
struct EnvironmentChange {
  std::map<std::string, std::string> set;
  std::vector<std::string> unset;
  std::vector<std::string>
      at_start;  ///< set to values that are known only at the start: the port, the job key, ...
};
EnvironmentChange worker_environment(const JobSpec& spec, int rank, int attempt,
                                     const RankPlace& place);
/// The same for a rank of a job on one host.
EnvironmentChange worker_environment(const JobSpec& spec, int rank, int attempt);

/// The error of a variable in JobSpec::env that the launcher sets itself; nullopt if `name` may be
/// given.
std::optional<Error> why_reserved(const std::string& name);

/// The variables that the ranks of `host` get because of its entry in the hostfile.
std::map<std::string, std::string> host_environment(const JobHost& host);

/// The command that starts the agent of `host`, without the random number that each call draws.
std::vector<std::string> agent_command(const JobHost& host);

/// The variables of this shell's environment that other hosts get: those listed in docs/hosts.md,
/// and those that `exports` names. Error(kConfig) if one of the latter is not set.
std::map<std::string, std::string> travelling_environment(const std::vector<std::string>& exports);

/// The file to pass to execve for `program`: `program` itself if it has a slash, else the first
/// match in the folders of `path` (in the form of PATH). Throws Error(kConfig) if there is none
/// that can be executed.
std::string find_program(const std::string& program, const std::string& path);

/// The file in a virtual environment (venv's or conda's) that the workers run if this machine's
/// PATH says so: the program of the command, or the one that its #! line looks up in PATH. "" if it
/// is in none. A host without this file would take another program of that name without a word.
std::string program_of_environment(const JobSpec& spec);

/// Runs the job to its end, restarts included, and returns how it ended. Blocks; call it from a
/// thread that lives at least as long, preferably the main thread. Throws an Error if the job
/// cannot start at all: because of the program (kConfig), the port or the system's limits
/// (kDevice), or the log folder (kData; kConfig if that is a file).
///
/// Signals while it runs: SIGTERM, SIGINT, SIGHUP, SIGQUIT and SIGUSR1 stop the job, and SIGUSR2
/// requests a checkpoint. If the program is not hgtrain's, each of these is passed on to it
/// instead. A second SIGINT kills the job. On return the previous signal handlers are restored.
///
/// While it runs, std::cerr never blocks, so a console that nobody reads (a stopped terminal, a
/// full pipe) delays no signal and no heartbeat: what is printed waits, and if it becomes too much,
/// lines are left out and counted. At the end it waits until all is read. If the job has been asked
/// to stop, or is then, it waits only as long as something is read every 5 s, and stdout and stderr
/// lead nowhere after that.
///
/// With `hosts`, one ssh process a host (except for this machine) carries the stream to `hgtrain
/// agent` there. Error(kDevice) names each host that cannot be used, and why. If a host is lost
/// later, the attempt ends. A restart begins two leases after the last message from it, when no
/// process of the job can be left there: on a spare host, on the same host again, or without it.
///
/// No process of the job outlives run_job or this process, even if this process is killed. Each
/// worker runs under a guard, which is a child subreaper (PR_SET_CHILD_SUBREAPER): orphaned
/// descendants of the worker become its children. The guard kills them all when the worker ends or
/// when its stream to this process closes. In case a guard dies, this process is a subreaper too
/// while it runs: it kills every process that becomes its child and is not a guard.
///
/// Workers have no terminal and no input: each has its own session, and /dev/null as stdin.
Verdict run_job(const JobSpec& spec);

}  // namespace hgt
