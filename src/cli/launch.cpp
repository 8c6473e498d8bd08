#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/exception.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/launch/job.h"
#include "hgtrain/launch/remote_command.h"
#include "hgtrain/machine/visible_gpus.h"
#include "hgtrain/wire/job_key.h"

#include "check_flags.h"
#include "commands.h"
#include "detachment.h"
#include "environment_file.h"
#include "first_host.h"
#include "host_flags.h"
#include "host_plan.h"
#include "launched_run.h"
#include "options.h"
#include "printed_ranks.h"

namespace hgt {
namespace {

/// The script of `python3 FILE.py ...`, "" = none.
std::string script_in(const std::vector<std::string>& program) {
  const bool is_python =
      std::filesystem::path(program[0]).filename().string().starts_with("python");
  return is_python && program.size() > 1 && program[1].ends_with(".py") ? program[1] : "";
}

class Launch final : public Command {
 public:
  std::string_view name() const override { return "launch"; }
  std::string_view summary() const override {
    return "start any program once per worker, with the variables that torchrun sets";
  }
  Rest rest() const override { return Rest::kProgram; }

  void add_options(Options& options) override {
    options
        .add("--num_workers,--nproc_per_node", workers_,
             "processes to start, on each host (default: one per visible GPU, else 1); or "
             "torchrun's gpu, cpu, auto")
        .type_name("N")
        .or_variable("PET_NPROC_PER_NODE");
    options.add("--num_gpus,--num_accelerators", num_gpus_,
                "the same, but refused if fewer GPUs are visible");
    add_host_options(options, host_flags_);
    options.add_flag("--standalone", is_standalone_,
                     "torchrun's: on this machine alone, as without --hosts and --nnodes");
    options
        .add("--export", spec_.exports,
             "NAME of a variable that the hosts get as well; may be "
             "repeated")
        .repeatable();
    options
        .add("--rdzv_id", spec_.run_id,
             "torchrun's: name of the run, for TORCHELASTIC_RUN_ID; the same on all nodes")
        .or_variable("PET_RDZV_ID");
    options
        .add("--max_restarts", spec_.max_restarts,
             "start all again up to N times after a failure (default: 0)")
        .or_variable("PET_MAX_RESTARTS");
    options
        .add("--log_dir,--enable_each_rank_log", spec_.log_dir,
             "write the output of rank N to DIR/rank_N.log")
        .or_variable("PET_LOG_DIR");
    options.add("--show", shown_ranks_,
                "ranks whose output is printed: all (default), none, or 0,2-5");
    options
        .add("--local_ranks_filter", local_ranks_,
             "torchrun's: print only the output of these ranks of each host")
        .or_variable("PET_LOCAL_RANKS_FILTER");
    options
        .add("-t,--tee", tee_,
             "torchrun's: 3 = the output is in the files of --log_dir, and printed")
        .or_variable("PET_TEE");
    options
        .add("-r,--redirects", redirects_,
             "torchrun's: 3 = the output is only in the files of --log_dir, 1 = that to stdout; "
             "0:3,1:1 for local ranks 0 and 1")
        .or_variable("PET_REDIRECTS");
    options.add("--env", env_, "NAME=VALUE, added to the environment; may be repeated")
        .repeatable();
    options
        .add("--grace,--shutdown_timeout", grace_seconds_,
             "seconds from SIGTERM to SIGKILL (default: 30)")
        .or_variable("PET_SHUTDOWN_TIMEOUT");
    options.add("--role", role_, "torchrun's: ROLE_NAME of the programs (default: default)")
        .or_variable("PET_ROLE");
    options.add_flag("--detach", detach_,
                     "return to the shell once the programs run; needs --log_dir");
    options.add_flag("--dry_run", dry_run_, "print commands and environments, start nothing");
  }

  int run(const std::vector<std::string>& program) override {
    if (program.empty())
      throw Error(
          ErrorKind::kConfig, "no program to start is named",
          "name it after two dashes: hgtrain launch --num_workers 4 -- PROGRAM ARGUMENTS...");
    if (const auto code = start_nodes(host_flags_, spec_.exports, dry_run_)) return *code;
    host_flags_.hostfile_text = received_file(host_flags_.hostfile);
    fill_hosts();
    check_standalone();
    fill_spec(program);
    check_detach();
    name_hosts_of_program(program);
    if (moves_to_first_host(detach_, spec_.hosts))
      return run_on_first_host(spec_.hosts, spec_.exports, {host_flags_.hostfile},
                               program_of_environment(spec_), spec_.log_dir, "--log_dir");
    Detachment detachment(detach_);
    if (dry_run_) {
      if (spec_.hosts.empty())
        print_plan(program);
      else
        say("{}", host_plan(spec_, device_of));
      return 0;
    }
    if (spec_.rendezvous) {
      spec_.rendezvous->secret = take_job_secret(host_flags_);
      spec_.rendezvous->rejoins |= spec_.max_restarts > 0;
      spec_.rendezvous->settings = {{"the program", shell_line(program)},
                                    {"--max_restarts", std::to_string(spec_.max_restarts)},
                                    {"--grace", fmt::format("{}", grace_seconds_)},
                                    {"--show", shown_ranks_}};
      if (!spec_.run_id.empty()) spec_.rendezvous->settings["--rdzv_id"] = spec_.run_id;
      if (!typed_log_dir_.empty()) spec_.rendezvous->settings["--log_dir"] = typed_log_dir_;
    }
    if (spec_.rendezvous && spec_.rendezvous->node != 0)
      return run_node(*spec_.rendezvous, spec_.hosts);
    ProgramRun record(spec_, detach_, [this](const std::string& text) { print_notice(text); });
    spec_.socket = record.socket();
    int to_spawn = spec_.num_workers;
    spec_.on_hosts = [&](const std::vector<JobHost>& hosts) {
      record.set_hosts(hosts);
      to_spawn = 0;
      for (const JobHost& host : hosts) to_spawn += host.workers;
    };
    if (detachment.is_wanted())
      spec_.on_event = [&, show = spec_.on_event](int rank, std::string_view kind,
                                                  const nlohmann::json& body) {
        show(rank, kind, body);
        if (kind == "stopping" || kind == "killing") detachment.stay();
        if (kind == "spawned" && --to_spawn <= 0)
          detachment.start(spec_.log_dir, spec_.log_dir + "/detached.log");
      };
    spec_.on_end = [&](const Verdict& verdict) {
      print_for_all(verdict.render());
      record.finish(verdict);
    };
    try {
      return run_job(spec_).exit_code;
    } catch (const std::exception& e) {
      record.finish(error_from(e));
      throw;
    }
  }

 private:
  void check_standalone() const {
    if (is_standalone_ && (spec_.rendezvous || !spec_.hosts.empty()))
      throw Error(ErrorKind::kConfig,
                  "--standalone means this machine alone, but the job is to run on others, too",
                  "leave out --standalone");
  }

  void check_detach() const {
    check_detach_flag(detach_, dry_run_, spec_.rendezvous.has_value());
    if (detach_ && spec_.log_dir.empty())
      throw Error(ErrorKind::kConfig, "--detach needs --log_dir",
                  "add --log_dir DIR, which keeps what the programs print once the shell is gone");
  }

  /// Of a job on this machine alone, which may not be what the user wants.
  void name_hosts_of_program(const std::vector<std::string>& program) const {
    if (!spec_.hosts.empty() || spec_.rendezvous) return;
    for (const std::string& word : program)
      if (const std::string flag = word.substr(0, word.find('='));
          flag == "--hosts" || flag == "--hostfile")
        print_notice(
            fmt::format("{0} comes after the program, so it is the program's flag; as one "
                        "of hgtrain, it comes before: hgtrain launch {0} ... -- PROGRAM",
                        flag));
  }

  void print_notice(const std::string& text) const {
    print_for_all(fmt::format("hgtrain: {}\n", text));
  }

  /// Prints for the user, and for clients that watch the console.
  void print_for_all(const std::string& text) const {
    tell("{}", text);
    if (spec_.socket) spec_.socket->show(true, printable(text));
  }

  void fill_hosts() {
    host_flags_.restarts = spec_.max_restarts > 0;
    find_own_node(host_flags_);
    take_rdzv_conf(host_flags_);
    if (!workers_.empty()) {
      const ProcessCount count =
          process_count("--num_workers", workers_, !reaches_hosts(host_flags_));
      num_workers_ = count.number;
      if (count.needs_gpu) min_gpus_ = 1;
    }
    host_flags_.num_workers = asked_workers();
    named_hosts_ = hosts_of(host_flags_);
    spec_.rendezvous = rendezvous_of(host_flags_, named_hosts_);
    if (!spec_.rendezvous) spec_.master_port = host_flags_.master_port;
    if (is_this_machine(named_hosts_)) return;
    spec_.hosts = named_hosts_;
    spec_.is_on_first_host = received_command() != nullptr;
    spec_.min_hosts = min_hosts_of(host_flags_);
    if (host_flags_.elastic_timeout)
      spec_.elastic_timeout = std::chrono::seconds(*host_flags_.elastic_timeout);
    for (JobHost& host : spec_.hosts) host.min_gpus = num_gpus_.value_or(min_gpus_);
  }

  void fill_spec(const std::vector<std::string>& program) {
    spec_.argv = [program](int) { return program; };
    spec_.script = script_in(program);
    if ((named_hosts_.empty() || spec_.rendezvous) && !spec_.exports.empty())
      throw Error(
          ErrorKind::kConfig, "--export needs --hosts",
          "on this machine, programs inherit the whole environment; --env NAME=VALUE adds to it");
    spec_.num_workers = spec_.hosts.empty() ? workers_here() : 1;
    spec_.shown_local_ranks = printed_ranks(local_ranks_, tee_, redirects_);
    typed_log_dir_ = spec_.log_dir;
    if (spec_.log_dir.empty() && !detach_ &&
        (asks_for_files("--tee", tee_) || asks_for_files("--redirects", redirects_))) {
      spec_.log_dir = std::filesystem::temp_directory_path() /
                      ("hgtrain_logs_" + JobKey::random().hex().substr(0, 16));
      if (!spec_.rendezvous || spec_.rendezvous->node == 0)
        print_notice("output is in " + spec_.log_dir + ", because no --log_dir is given");
    }
    spec_.shown_ranks = RankSet::parse(shown_ranks_);
    check_range("--max_restarts", spec_.max_restarts, 0, kMaxRestarts);
    check_range("--master_port", host_flags_.master_port, 0, 65535);
    if (!std::isfinite(grace_seconds_) || grace_seconds_ < 0 || grace_seconds_ > 1e6)
      throw Error(ErrorKind::kConfig,
                  fmt::format("--grace {} is not a number of seconds", grace_seconds_));
    spec_.grace = std::chrono::milliseconds(std::llround(grace_seconds_ * 1000));
    const bool is_inherited = spec_.hosts.empty() || spec_.rendezvous;
    for (const std::string& entry : env_) {
      const std::size_t equals = entry.find('=');
      if (equals == std::string::npos)
        throw Error(
            ErrorKind::kConfig, fmt::format("--env {} has no value", entry),
            is_inherited
                ? fmt::format("--env {}=VALUE; what this shell exports is inherited without --env",
                              entry)
                : fmt::format("--env {0}=VALUE; the hosts get the value that {0} has in this shell "
                              "by --export {0}",
                              entry));
      const std::string name = entry.substr(0, equals);
      if (name.empty() || name.find(' ') != std::string::npos)
        throw Error(ErrorKind::kConfig, fmt::format("--env {}: '{}' is no name", entry, name),
                    "write --env NAME=VALUE, once for each variable");
      spec_.env[name] = entry.substr(equals + 1);
    }
    if (!spec_.hosts.empty() && !moves_to_first_host(detach_, spec_.hosts))
      spec_.env.merge(variables_of_files(host_flags_));
    if (!role_.empty()) spec_.env.emplace("ROLE_NAME", role_);
    for (const JobHost& host : named_hosts_)
      for (const auto& [name, value] : host_environment(host))
        if (spec_.env.contains(name))
          throw Error(ErrorKind::kConfig,
                      fmt::format("{}={} contradicts the hosts: {} gets {}={}", name,
                                  spec_.env[name], host.name, name, value),
                      "keep one of them");
    if (spec_.hosts.empty() && !named_hosts_.empty())
      spec_.env.merge(host_environment(named_hosts_[0]));
    spec_.on_event = [this](int, std::string_view kind, const nlohmann::json& body) {
      if (kind == "notice") print_notice(body.at("text"));
      if (kind == "stopping")
        print_notice(fmt::format("waiting up to {} s for the programs to end{}", grace_seconds_,
                                 body.at("signal") == "INT" ? "; Ctrl-C again kills them" : ""));
    };
  }

  /// The number of workers that the flags ask for on each host.
  std::optional<std::int64_t> asked_workers() const {
    if (num_gpus_ && !workers_.empty()) require_one_count(num_gpus_, num_workers_.value_or(1));
    if (num_workers_) check_range("--num_workers", *num_workers_, 1, kMaxWorkersOfHost);
    if (num_gpus_ == 0)
      throw Error(ErrorKind::kConfig, "--num_gpus 0 starts no program",
                  "for N workers on the CPU, use --num_workers N");
    if (num_gpus_) check_range("--num_gpus", *num_gpus_, 1, kMaxWorkersOfHost);
    if (num_workers_) return num_workers_;
    return num_gpus_;
  }

  int workers_here() const {
    const std::optional<std::int64_t> asked = asked_workers();
    if (!asked && !named_hosts_.empty() && named_hosts_[0].workers > 0)
      return named_hosts_[0].workers;
    if (!asked) {
      const VisibleDevices visible = visible_gpus();
      if (!dry_run_) require_gpus(min_gpus_, visible);
      return std::max(1, static_cast<int>(visible.gpus.size()));
    }
    if (num_gpus_ && !dry_run_)
      require_gpus(*num_gpus_, visible_gpus());  // a dry run may be for another machine
    return static_cast<int>(*asked);
  }

  /// The device that a program uses if it follows LOCAL_RANK.
  static std::string device_of(const JobHost& host, int local_rank) {
    const auto place = static_cast<std::size_t>(local_rank);
    return fmt::format("GPU {}, if it uses GPUs",
                       host.devices.empty() ? std::to_string(local_rank) : host.devices[place]);
  }

  void print_plan(const std::vector<std::string>& program) const {
    say("command: {}\nworkers: {}\n", shell_line(program), spec_.num_workers);
    say("{}", local_gpus(spec_.num_workers, named_hosts_.empty() ? std::vector<std::string>()
                                                                 : named_hosts_[0].devices));
    std::vector<std::pair<std::string, EnvironmentChange>> ranks;
    for (int rank = 0; rank < spec_.num_workers; ++rank)
      ranks.emplace_back(fmt::format("rank {}", rank), worker_environment(spec_, rank, 0));
    say("{}", rank_environments(ranks, "this one"));
  }

  JobSpec spec_;
  std::string workers_;  // process_count()
  std::optional<std::int64_t> num_workers_;
  int min_gpus_ = 0;
  std::optional<int> num_gpus_;
  HostFlags host_flags_;
  std::vector<JobHost> named_hosts_;  // spec_.hosts, or this machine
  std::vector<std::string> env_;
  std::string shown_ranks_ = "all";
  std::string local_ranks_, tee_, redirects_;  // printed_ranks()
  std::string typed_log_dir_;                  // "" if there is only a default one
  double grace_seconds_ = 30;
  std::string role_;
  bool is_standalone_ = false;
  bool detach_ = false;
  bool dry_run_ = false;
};

}  // namespace

std::unique_ptr<Command> launch_command() {
  return std::make_unique<Launch>();
}

}  // namespace hgt
