#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/exception.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/config/run_checkpoints.h"
#include "hgtrain/launch/job.h"
#include "hgtrain/launch/remote_command.h"
#include "hgtrain/machine/network.h"
#include "hgtrain/parallel/rank_plan.h"
#include "hgtrain/report/human.h"
#include "hgtrain/wire/requests.h"

#include "commands.h"
#include "detachment.h"
#include "elastic_plan.h"
#include "environment_file.h"
#include "files_to_push.h"
#include "first_host.h"
#include "host_flags.h"
#include "host_plan.h"
#include "job_view.h"
#include "launched_run.h"
#include "options.h"
#include "plan_fit.h"
#include "plan_text.h"
#include "run_folder.h"
#include "shell_words.h"
#include "trace_output.h"
#include "train_plan.h"
#include "worker_program.h"

namespace hgt {
namespace {

/// The notice about what differs from the config of the run that is resumed, as both were given; ""
/// if nothing does.
std::string changes_of(const std::string& resumed_run, const nlohmann::json& given) {
  const std::optional<nlohmann::json> before = read_given_config(resumed_run);
  if (!before) return "";
  const std::vector<std::string> changes = config_changes(*before, given);
  return changes.empty() ? ""
                         : fmt::format("hgtrain: note: changed: {}\n", fmt::join(changes, "; "));
}

/// The config for other runs: "auto", and keys that follow from this run's length, workers and
/// devices, have the values that the user gave.
nlohmann::ordered_json as_given(const TrainPlan& plan) {
  nlohmann::ordered_json json = to_json(plan.config);
  for (const char* keys : {"train_", "gradient_accumulation_steps", "scheduler.params."})
    leave_out_derived(plan.given, keys, json);
  leave_out_unread(json);
  keep_auto(plan.given, "", json);
  const nlohmann::ordered_json given = to_json(plan.given.config);
  json["hardware"] = given["hardware"];
  json["parallelism"] = given["parallelism"];
  return json;
}

/// The keys of the job's learning rates, each with a tenth of its value.
std::vector<std::pair<std::string, std::string>> lower_rates(const Config& config) {
  std::vector<std::pair<std::string, std::string>> rates;
  const auto add = [&](const std::string& key, double rate) {
    if (rate > 0) rates.emplace_back(key, fmt::format("{:g}", rate / 10));
  };
  for (const auto& [name, value] : config.scheduler.numbers)
    if (name.ends_with("_lr")) add("scheduler.params." + name, value);
  if (!rates.empty()) return rates;
  add("optimizer.params.lr", config.optimizer.lr);
  add("training.lr_schedule.min_lr", config.training.lr_schedule.min_lr);
  return rates;
}

/// The hosts without the last ranks, if the plan leaves some out.
std::vector<JobHost> hosts_in(const TrainPlan& plan, std::vector<JobHost> hosts) {
  int left = plan.workers;
  for (JobHost& host : hosts)
    if (!host.is_spare) left -= host.workers = std::min(host.workers, left);
  std::erase_if(hosts, [](const JobHost& host) { return host.workers == 0; });
  return hosts;
}

std::string device_of(const TrainPlan& plan) {
  const HardwareConfig& hardware = plan.config.hardware;
  return hardware.device + ", " + human_plural(hardware.threads, "thread");
}

/// run.json at the start.
RunFile run_file_of(const TrainPlan& plan, const std::vector<JobHost>& hosts) {
  RunFile out = new_run_file();
  const Layout layout = layout_of(plan.config);
  const std::string device = device_of(plan);
  for (const JobHost& host : hosts)
    for (int i = 0; i < host.workers; ++i) {
      const int rank = static_cast<int>(out.workers.size());
      out.workers.push_back({rank, host.name, device, layout.position_text(rank)});
    }
  out.layout = {{"data", layout.data_size},
                {"context", layout.context_size},
                {"tensor", layout.tensor_size},
                {"pipeline", layout.pipeline_size},
                {"virtual_stages", layout.virtual_stages},
                {"zero_stage", plan.config.zero.stage}};
  return out;
}

class Train final : public Command {
 public:
  std::string_view name() const override { return "train"; }
  std::string_view summary() const override {
    return "train a model; hgtrain --config FILE is short for it";
  }
  Rest rest() const override { return Rest::kOverrides; }

  void add_options(Options& options) override {
    options.add("--config,--deepspeed_config", flags_.config,
                "the job: a DeepSpeed config with hgtrain's sections; - reads standard input");
    options.add("--num_gpus,--num_accelerators", flags_.num_gpus,
                "GPUs to train on (default: all visible ones)");
    options.add("--num_workers", flags_.num_workers, "workers on the CPU, on each host");
    options
        .add("--nproc_per_node", flags_.nproc_per_node,
             "torchrun's: workers on each host, on GPUs if there are some; or gpu, cpu, auto")
        .type_name("N")
        .or_variable("PET_NPROC_PER_NODE");
    add_host_options(options, flags_.on_hosts);
    options.add("--device", flags_.device, "auto, cuda or cpu (default: the config's, else auto)")
        .one_of({"auto", "cuda", "cpu"});
    options.add("--steps", flags_.steps, "steps of the whole run, instead of the config's");
    options.add("--run_dir", flags_.run_dir,
                "folder of the run (default: runs/NAME of the config)");
    options.add("--resume", flags_.resume,
                "auto (the run folder's newest checkpoint), a checkpoint or run folder, or "
                "none (default)");
    options.add(
        "--max_restarts", flags_.max_restarts,
        "after a failure, start again from the last checkpoint, up to N times without a new one "
        "(default: 0)");
    options.add("--show", flags_.shown_ranks,
                "ranks whose log is printed as well: none (default), all, or 0,2-5");
    options.add("--trace", flags_.trace,
                "write what each worker did, and when, into this file in Chrome's trace format");
    options.add_flag("--profile", flags_.profile, "print at the end how long each op took");
    options.add("--trace_steps", flags_.trace_steps,
                "steps in the trace and profile, from the third on (default: 10)");
    options.add_flag("--detach", flags_.detach,
                     "return to the shell once training has begun; it continues without the shell");
    options.add_flag("--dry_run", flags_.dry_run,
                     "print what would run, and how large it is; touch no device");
    options.add("--gpu", flags_.gpu,
                "with --dry_run: whether it fits a GPU of this kind (h100, rtx4090) or memory "
                "(24GB)");
  }

  int run(const std::vector<std::string>& overrides) override {
    require_named_run();
    flags_.config_text = received_file(flags_.config);
    flags_.on_hosts.hostfile_text = received_file(flags_.on_hosts.hostfile);
    if (const auto code = start_nodes(flags_.on_hosts, {}, flags_.dry_run)) return *code;
    find_own_node(flags_.on_hosts);
    take_rdzv_conf(flags_.on_hosts);
    take_process_count(flags_);
    rendezvous_ = rendezvous_of(flags_.on_hosts, hosts_of(flags_));
    take_this_machine(flags_);
    typed_run_dir_ = flags_.run_dir;
    if (flags_.run_dir.empty()) flags_.run_dir = default_run_dir(flags_.config);
    check_detach_flag(flags_.detach, flags_.dry_run, rendezvous_.has_value());
    require_config_here();
    if (moves_to_first_host(flags_.detach, hosts_of(flags_))) {
      check_flags(flags_);
      return run_on_first_host(hosts_of(flags_), {}, {flags_.config, flags_.on_hosts.hostfile},
                               /*program=*/"", flags_.run_dir, "--run_dir");
    }
    variables_ = variables_of_files(flags_.on_hosts);
    Detachment detachment(flags_.detach && !flags_.dry_run);
    const bool joins = rendezvous_ && rendezvous_->node != 0 && !flags_.dry_run;
    if (!flags_.config_text && !flags_.config.empty() && !(joins && lacks_config()))
      flags_.config_text = read_config(flags_.config);
    if (rendezvous_ && !flags_.dry_run) complete_rendezvous(overrides);
    if (joins) return run_node(*rendezvous_, hosts_of(flags_));
    if (names_checkpoint(flags_.resume)) flags_.resume = checkpoint_folder(flags_.resume);
    const TrainPlan plan = make_train_plan(flags_, overrides);
    const std::string notices = notice_lines(plan.notices);
    tell("{}", notices);
    const bool is_here = hosts_of(flags_).empty();  // the devices of the run are this machine's
    const std::optional<PlanFit> fit = is_here ? fit_of(plan, flags_.gpu) : std::nullopt;
    if (flags_.dry_run) {
      say("{}", describe(plan, flags_.run_dir, fit));
      if (!is_here) say("\n{}", plan_of_hosts(plan));
      if (is_here && plan.config.hardware.device == "cuda") say("{}", local_gpus(plan.workers, {}));
    }
    if (fit) fit->require();
    RankSet::parse(flags_.shown_ranks).require_in(plan.workers);
    if (flags_.dry_run) return 0;
    if (is_here) require_room_to_offload(plan);
    if (is_here) address_of(plan.config.distributed.interface);
    if (names_checkpoint(flags_.resume)) require_checkpoint(flags_.resume);
    const TraceOutput trace(flags_);
    const RunFolder folder = claim_run_folder(flags_.run_dir, flags_.resume != "none");
    const nlohmann::ordered_json given = as_given(plan), resolved = to_json(plan.config);
    if (folder.previous_config) require_same_training(*folder.previous_config, resolved);
    const std::string changes = flags_.resume == "none"
                                    ? ""
                                    : changes_of(names_checkpoint(flags_.resume)
                                                     ? parent_folder(parent_folder(flags_.resume))
                                                     : folder.path,
                                                 given);
    JobConfig config(folder, given.dump(2) + "\n", resolved.dump(2) + "\n");
    trace.clear(folder.path);
    const int status =
        start(plan, folder, config, trace.record_steps(), notices, changes, detachment);
    trace.finish(folder.path, plan.workers);
    return status;
  }

 private:
  /// A folder that lacks only the manifest of a checkpoint is damaged, which the workers report.
  static void require_checkpoint(const std::string& path) {
    constexpr const char* kHint =
        "a checkpoint is a folder such as RUN_DIR/checkpoints/step_00000100; --resume auto takes "
        "the run folder's newest";
    if (!is_folder(path))
      throw Error(ErrorKind::kConfig, fmt::format("there is no checkpoint folder {}", path), kHint);
    const std::string name = std::filesystem::path(path).filename();
    if (!name.starts_with("step_") && !path_exists(path + "/" + kManifestName))
      throw Error(ErrorKind::kConfig,
                  fmt::format("{} is no checkpoint: it has no {}", path, kManifestName), kHint);
  }

  /// A node that joins others needs no config: node 0's counts. Only one of them can read a pipe.
  bool lacks_config() const {
    return flags_.config == "-" || !path_exists(flags_.config, ErrorKind::kConfig);
  }

  /// With hosts that ssh reaches, the config is read where the command is typed.
  void require_config_here() const {
    const bool is_piped = flags_.config.empty() || flags_.config == "-";
    if (reaches_hosts(flags_.on_hosts) && !flags_.config_text && !is_piped && lacks_config())
      throw Error(ErrorKind::kConfig,
                  fmt::format("there is no config {} on {}", flags_.config, host_name()),
                  "if it lies on rank 0's host, as that of a run or of its copy may, type the "
                  "command there; `hgtrain config init quickstart` writes a new one");
  }

  void complete_rendezvous(const std::vector<std::string>& overrides) {
    check_flags(flags_);
    rendezvous_->secret = take_job_secret(flags_.on_hosts);
    rendezvous_->trains = true;
    rendezvous_->rejoins |= flags_.max_restarts > 0;
    if (flags_.config_text)
      rendezvous_->config =
          written_values(*flags_.config_text, flags_.config, all_overrides(flags_, overrides));
    rendezvous_->settings = {{"--max_restarts", std::to_string(flags_.max_restarts)},
                             {"--show", flags_.shown_ranks}};
    if (rendezvous_->node == 0 || flags_.resume != "none")
      rendezvous_->settings["--resume"] = flags_.resume;
    if (!typed_run_dir_.empty()) rendezvous_->settings["--run_dir"] = typed_run_dir_;
  }

  /// If the user names a run folder, or a run's own config, they must mean that run.
  void require_named_run() const {
    const std::string named = flags_.run_dir.empty() ? flags_.resume : flags_.run_dir;
    if (flags_.config.empty() && path_exists(named + "/resolved.json"))
      throw Error(ErrorKind::kConfig, "no config is named",
                  fmt::format("to resume this run: hgtrain --config {} --run_dir {} --resume auto",
                              shell_word(named + "/config.json"), shell_word(named)));
    const std::string run = parent_folder(flags_.config);
    if (!flags_.config.empty() && flags_.run_dir.empty() && flags_.resume == "auto" &&
        path_exists(run + "/resolved.json"))
      throw Error(ErrorKind::kConfig,
                  fmt::format("{} is a run's own config, and no --run_dir says which run to resume",
                              flags_.config),
                  fmt::format("to resume that run: --run_dir {}", shell_word(run)));
  }
  static bool names_checkpoint(const std::string& resume) {
    return resume != "auto" && resume != "none";
  }

  /// From which the run resumes, if it has none of its own that is newer; "" if there is none.
  std::string first_checkpoint(const std::string& run_dir) const {
    if (flags_.resume == "none") return "";
    if (names_checkpoint(flags_.resume)) return flags_.resume;
    const std::optional<BranchOrigin> origin = read_origin(run_dir);
    return origin ? origin_folder(run_dir, *origin) : "";
  }

  std::string plan_of_hosts(const TrainPlan& plan) const {
    JobSpec spec = job_in(plan, flags_.run_dir);
    spec.hosts = hosts_in(plan, spec.hosts);
    spec.argv = [&](int) {
      return worker_argv(worker_program(), TrainRequest{.run_dir = flags_.run_dir,
                                                        .config = flags_.run_dir + "/resolved.json",
                                                        .resume = flags_.resume});
    };
    return host_plan(spec, [&](const JobHost&, int) { return device_of(plan); });
  }

  JobSpec job_of(const TrainPlan& plan, const RunFolder& folder, JobConfig& config,
                 std::int64_t record_steps, const SharedMark& mark, JobView& view,
                 Detachment& detachment) const {
    JobSpec spec = job_in(plan, folder.path);
    spec.shared_file = mark.path();
    if (plan.config.distributed.push_data && !spec.hosts.empty())
      spec.pushed_files = files_to_push(plan.config, first_checkpoint(folder.path));
    spec.token_files = token_files_of(plan.config);
    spec.argv = [worker = worker_program(), dir = folder.path, resume = flags_.resume, record_steps,
                 &mark, &config, &view](int attempt) {
      // The run folder is on this job's branch only once it has begun.
      const std::string from = !view.goes_back_to().empty()      ? view.goes_back_to()
                               : attempt > 0 && view.has_begun() ? "auto"
                                                                 : resume;
      return worker_argv(worker, TrainRequest{.run_dir = dir,
                                              .config = config.path(),
                                              .resume = from,
                                              .record_steps = record_steps,
                                              .mark = mark.path()});
    };
    spec.on_event = [&, dir = folder.path](int rank, std::string_view kind,
                                           const nlohmann::json& body) {
      view.event(rank, kind, body);
      if (kind == "stopping" || kind == "killing") detachment.stay();
      if (view.has_begun()) detachment.start(dir, dir + "/logs/detached.log");
    };
    return spec;
  }

  JobSpec job_in(const TrainPlan& plan, const std::string& run_dir) const {
    JobSpec spec;
    spec.env = variables_;
    // oneDNN packs operands into aligned blocks. glibc's per-thread cache of free memory would keep
    // the rest before each one, so that freed blocks do not fit the next: tens of megabytes of
    // gaps.
    if (!std::getenv("GLIBC_TUNABLES"))
      spec.env.emplace("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0");
    spec.num_workers = plan.workers;
    spec.hosts = hosts_of(flags_);
    spec.is_on_first_host = received_command() != nullptr;
    const HardwareConfig& hardware = plan.config.hardware;
    for (JobHost& host : spec.hosts) {
      if (host.address.empty() && host.interface.empty())
        host.interface = plan.config.distributed.interface;
      if (hardware.device == "cuda") host.min_gpus = hardware.oversubscribe ? 1 : host.workers;
    }
    spec.min_hosts = min_hosts_of(flags_.on_hosts);
    if (flags_.on_hosts.elastic_timeout)
      spec.elastic_timeout = std::chrono::seconds(*flags_.on_hosts.elastic_timeout);
    spec.run_dir = run_dir;
    spec.log_dir = run_dir + "/logs";
    spec.own_workers = true;
    spec.shown_ranks = RankSet::parse(flags_.shown_ranks);
    spec.max_restarts = static_cast<int>(flags_.max_restarts);
    spec.rendezvous = rendezvous_;
    if (!rendezvous_) spec.master_port = flags_.on_hosts.master_port;
    spec.hang_limit = std::chrono::milliseconds(plan.config.distributed.timeout_ms());
    return spec;
  }

  int start(const TrainPlan& plan, const RunFolder& folder, JobConfig& config,
            std::int64_t record_steps, const std::string& notices, const std::string& changes,
            Detachment& detachment) const {
    JobSocket socket(folder.path);  // closed when run.json says how the run ended
    std::vector<JobHost> hosts = hosts_in(plan, without_spares(hosts_of(flags_)));
    if (hosts.empty()) hosts.push_back({.name = host_name(), .workers = plan.workers});
    const RunFile run = run_file_of(plan, hosts);
    ConsoleStyle style = ConsoleStyle::of(STDERR_FILENO);
    style.live &= flags_.shown_ranks == "none";  // ranks would write into the progress line
    if (detachment.is_wanted()) style = {};
    JobView view(folder.path, folder.holds_run, run, style,
                 {.plan = {.total_steps = plan.config.training.train_iters,
                           .eval_interval = plan.config.training.eval_interval,
                           .eval_iters = plan.config.training.eval_iters,
                           .save_interval = plan.config.checkpoint.save_interval},
                  .steps_per_print = plan.config.steps_per_print,
                  .copy = [&socket](std::string_view line) { socket.show(true, line); }},
                 lower_rates(plan.config));
    view.log(notices);
    view.print_at_start(changes);
    view.print(banner(plan, folder.path));
    view.print(unreachable(socket));
    const SharedMark mark(folder);
    JobSpec spec = job_of(plan, folder, config, record_steps, mark, view, detachment);
    const ElasticPlan elastic(flags_, plan, config);
    if (spec.min_hosts > 0 || plan.config.elasticity.enabled)
      spec.is_valid_world = [&](int workers) { return elastic.is_valid(workers); };
    nlohmann::json resolved = to_json(plan.config);
    spec.on_hosts = [&](const std::vector<JobHost>& now) {
      int workers = 0;
      for (const JobHost& host : now) workers += host.workers;
      const TrainPlan next = workers == plan.workers ? plan : elastic.plan_on(now);
      const nlohmann::ordered_json json = to_json(next.config);
      const auto changes = config_changes(std::exchange(resolved, json), json);
      if (!changes.empty()) {
        config.replace_resolved(json.dump(2) + "\n");
        view.print(fmt::format("hgtrain: note: on {}: {}\n", human_plural(workers, "worker"),
                               fmt::join(changes, "; ")));
      }
      view.set_world(run_file_of(next, now));
    };
    spec.socket = &socket;
    spec.add_status = [&view](nlohmann::json& status) { view.add_status(status); };
    spec.on_end = [&](const Verdict& verdict) {
      view.finish(verdict);
      const std::string& copy = plan.config.checkpoint.copy_to;
      if (verdict.outcome == Verdict::Outcome::kFailed && verdict.rank < 0 && !copy.empty())
        view.print(fmt::format(
            "  if the checkpoints are lost with host {}, resume their copy: {}\n", verdict.host,
            shell_line(with_key(with_key(resuming(run.command), "config", copy + "/config.json"),
                                "run_dir", copy))));
    };
    try {
      return run_job(spec).exit_code;
    } catch (const std::exception& e) {
      view.cannot_start(error_from(e));
      throw;
    }
  }

  TrainFlags flags_;
  std::map<std::string, std::string> variables_;  // of DeepSpeed's files, for the hosts
  std::string typed_run_dir_;                     // "" if there is only the default one
  std::optional<Rendezvous> rendezvous_;
};

}  // namespace

std::unique_ptr<Command> train_command() {
  return std::make_unique<Train>();
}

}  // namespace hgt
