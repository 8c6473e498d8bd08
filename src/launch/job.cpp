#include "hgtrain/launch/job.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <limits>
#include <optional>
#include <sys/prctl.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/log.h"

#include "children.h"
#include "console_queue.h"
#include "coordinator.h"
#include "environment.h"
#include "failure.h"
#include "job_group.h"
#include "job_needs.h"
#include "job_signals.h"
#include "joined_hosts.h"
#include "merged_output.h"
#include "restart_budget.h"
#include "roster.h"
#include "ssh_host.h"

namespace hgt {
namespace {

namespace fs = std::filesystem;

/// How long a launcher that was asked to stop, or could not start the job, waits at its end for
/// somebody to read what it has printed.
constexpr std::chrono::seconds kReaderLimit{5};

/// Orphans of the job become children of this process while this lives.
class Subreaper {
 public:
  Subreaper() {
    prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper_);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
  ~Subreaper() { prctl(PR_SET_CHILD_SUBREAPER, was_subreaper_); }
  Subreaper(const Subreaper&) = delete;
  Subreaper& operator=(const Subreaper&) = delete;

 private:
  int was_subreaper_ = 0;
};

class Job {
 public:
  explicit Job(const JobSpec& spec)
      : spec_(spec),
        restarts_left_(spec.max_restarts,
                       is_elastic(spec) ? static_cast<int>(spec.hosts.size()) : 0),
        signals_(io_, [this](int signal) { on_signal(signal); }),
        console_(io_, {[this] { on_console_gone(); },
                       [this](const std::string& text) { notice(text); }}),
        children_before_(children()) {
    if (spec_.run_id.empty()) spec_.run_id = random_suffix();
    spec_.on_event = [this, on_event = spec.on_event](int rank, std::string_view kind,
                                                      const nlohmann::json& body) {
      joined_.hear(kind, body);
      if (restarts_left_.hear(kind, body)) asio::post(io_, [this] { on_progress(); });
      if (on_event) on_event(rank, kind, body);
      if (kind == "spawned" || kind == "started") console_.look_again();  // it may have detached
    };
  }

  Verdict run() {
    worker_environment(spec_, 0, 0);  // refuses names that cannot be given, before all else
    signals_.start();
    if (spec_.socket && spec_.socket->fd() >= 0) {
      requests_.assign(fcntl(spec_.socket->fd(), F_DUPFD_CLOEXEC, 3));
      watch_requests();
    }
    roster_.inspect(inspection_of(spec_), spec_.own_workers,
                    spec_.own_workers && !uses_gpus(spec_));
    if (!spec_.hosts.empty() && !spec_.pushed_files.for_all.empty())
      roster_.push(spec_.pushed_files, folder_there(spec_), spec_.shared_file);
    roster_.limit({static_cast<std::size_t>(spec_.min_hosts), spec_.is_valid_world},
                  patience_of(spec_), spec_.call_period);
    const Agent::Context here{
        io_, group_.join_fd(), [this] { return other_children(); }, {}, [](const std::string&) {}};
    if (spec_.rendezvous) {
      roster_.meet(spec_.hosts, *spec_.rendezvous, here);
    } else if (spec_.hosts.empty()) {
      roster_.add_this_machine(here, spec_.num_workers);
    } else {
      inherited_ = travelling_environment(spec_.exports);
      roster_.call(spec_.hosts, own_program(),
                   spec_.is_on_first_host ? std::optional(here) : std::nullopt);
    }
    io_.run();
    if (cannot_start_) throw *cannot_start_;
    return verdict_;
  }

 private:
  void notice(const std::string& text) { spec_.on_event(-1, "notice", {{"text", text}}); }

  std::set<pid_t> other_children() const {
    std::set<pid_t> out = roster_.ssh_processes();
    out.insert(children_before_.begin(), children_before_.end());
    return out;
  }

  void on_returned(const std::string& host) {
    if (done_ || stopping_) return;
    notice(fmt::format("host {} can be used now: it {}", host,
                       !roster_.can_grow() ? "is a spare"
                       : spec_.own_workers ? "joins after the next checkpoint"
                                           : "joins if the job is restarted"));
  }

  void on_progress() {
    roster_.forget_set_aside();
    let_hosts_join();
  }

  /// Hosts join between two attempts: hgtrain's workers stop for that after a save.
  void let_hosts_join() {
    if (!spec_.own_workers || stopping_ || done_ || is_growing_ || !coordinator_) return;
    if (!roster_.can_grow()) return;
    notice("stopping after this step, so that hosts can join");
    is_growing_ = true;
    coordinator_->stop_for_next_attempt();
  }

  /// What is equal for all hosts of this attempt, which shows the stdout of the ranks `out` and the
  /// stderr of `err`.
  Spawn order(const RankSet& out, const RankSet& err) const {
    Spawn order;
    if (!spec_.hosts.empty() && !spec_.rendezvous) {  // nodes work where they were started
      order.folder = fs::current_path();
      order.inherited = inherited_;
    }
    order.env = spec_.env;
    if (!joined_.joining(host_names()).empty()) order.env["HGTRAIN_HAS_JOINED_HOSTS"] = "1";
    if (const auto needed = joined_.needed_checkpoints(); !needed.empty())
      order.env["HGTRAIN_NEEDED_CHECKPOINTS"] = fmt::format("{}", fmt::join(needed, ":"));
    order.run_id = spec_.run_id;
    order.run_dir = spec_.run_dir;
    order.log_dir = spec_.log_dir;
    order.world_size = spec_.num_workers;
    order.max_restarts = spec_.max_restarts;
    order.master_addr = roster_.master_address();
    order.own_workers = spec_.own_workers;
    order.shown_stdout = out.text();
    order.shown_stderr = err.text();
    return order;
  }

  /// The ranks of this attempt that show this stream.
  RankSet shown_ranks(OutputSink::Stream stream) const {
    RankSet out;
    for (const HostRanks& host : roster_.hosts())
      for (int i = 0; i < host.num_ranks; ++i)
        if (spec_.shown_ranks.has(host.first_rank + i) &&
            spec_.shown_local_ranks[stream].has(host.first_local_rank + i))
          out.add(host.first_rank + i);
    return out;
  }

  void give_up(const Error& why) {
    if (std::exchange(done_, true)) return;
    cannot_start_ = why;
    end_loop(why.exit_code());
  }

  void on_ready() {
    if (done_) return;
    spec_.num_workers = roster_.num_ranks();
    try {
      if (spec_.min_hosts == 0) spec_.shown_ranks.require_in(spec_.num_workers);
      report_hosts();
      start_attempt();
    } catch (const Error& e) {
      cannot_start(e);
    }
  }

  /// Nothing of the attempt runs. `host`: the one that could not start its ranks, "" if none is to
  /// blame.
  void cannot_start(const Error& why, const std::string& host = "") {
    if (done_) return;
    if (attempt_ == 0) return give_up(why);
    const std::vector<std::string> joined = joined_.joining(host_names());
    const bool is_host_to_blame = !host.empty() && !spec_.hosts.empty();
    if (stopping_ || (joined.empty() && !is_host_to_blame)) return end_like_last_attempt(why);
    if (!is_host_to_blame || std::ranges::count(joined, host) > 0)
      leave_out(joined, host, why.message());
    else if (!roster_.set_aside(host, why.message()))
      return end_like_last_attempt(
          {why.kind(), fmt::format("host {} cannot be used: {}", host, why.message()), why.hint()});
    asio::post(io_, [this, why] {
      if (done_) return;
      if (stopping_) return end_like_last_attempt(why);
      coordinator_ ? restart(/*after_failure=*/false) : roster_.gather();
    });
  }

  /// An attempt that is made only to let hosts join, and fails soon, ends no job. `culprit`: the
  /// host to blame; all that have joined, if it is none of them.
  void leave_out(const std::vector<std::string>& joined, const std::string& culprit,
                 const std::string& why) {
    const bool has_joined = std::ranges::count(joined, culprit) > 0;
    for (const std::string& host : has_joined ? std::vector{culprit} : joined)
      roster_.leave_out(
          host, fmt::format("the attempt to continue with it failed before a checkpoint: {}{}", why,
                            has_joined || culprit.empty() ? "" : " (on host " + culprit + ")"));
  }

  std::vector<std::string> host_names() const {
    std::vector<std::string> out;
    for (const HostRanks& host : roster_.hosts()) out.push_back(host.spec.name);
    return out;
  }

  void report_hosts() {
    if (spec_.hosts.empty() || !spec_.on_hosts) return;
    std::vector<JobHost> hosts;
    for (const HostRanks& host : roster_.hosts()) hosts.push_back(host.spec);
    spec_.on_hosts(hosts);
  }

  void start_attempt() {
    const RankSet out = shown_ranks(OutputSink::kOut), err = shown_ranks(OutputSink::kErr);
    RankSet either = out;
    for (int rank = 0; rank < spec_.num_workers; ++rank)
      if (err.has(rank)) either.add(rank);
    output_.begin(either, spec_.num_workers);
    Coordinator::Context context{io_,
                                 spec_,
                                 order(out, err),
                                 [this](const std::string& text) { notice(text); },
                                 [this](const Error& why) { cannot_start(why); },
                                 [this, attempt = attempt_] {
                                   asio::post(io_, [this, attempt] {
                                     if (attempt == attempt_) on_finished();
                                   });
                                 }};
    is_growing_ = false;
    if (std::exchange(is_after_failure_, false)) ++restarts_;
    joined_.begin(host_names());
    coordinator_ = std::make_unique<Coordinator>(std::move(context), roster_.hosts(), attempt_);
    log_info("attempt {}: starting {} process{} of {}", attempt_, spec_.num_workers,
             spec_.num_workers == 1 ? "" : "es", spec_.argv(attempt_).at(0));
    coordinator_->start();
  }

  /// The loop may still refer to the last attempt, so that is destroyed after what is queued there.
  void restart(bool after_failure = true) {
    ++attempt_;
    is_after_failure_ = after_failure;
    spec_.on_event(-1, "restarting", nlohmann::json::object());
    coordinator_->close();
    asio::post(io_, [last = std::move(coordinator_)] {});
    roster_.gather();
  }

  /// If there can be no restart, the last attempt is how the job ended, unless it was stopped only
  /// to let hosts join.
  void end_like_last_attempt(const Error& why) {
    if (!stopping_ && verdict_.outcome == Verdict::Outcome::kStopped) {
      verdict_.outcome = Verdict::Outcome::kFailed;
      verdict_.exit_code = why.exit_code();
      verdict_.host = host_name();
      verdict_.reason = "could not start the ranks again";
      verdict_.message = why.message();
      verdict_.hint = why.hint();
      verdict_.context = why.context();
      return leave();
    }
    verdict_.no_restart = why.message();
    const bool is_away = spec_.rendezvous ? why.kind() == ErrorKind::kPeer  // it has not dialled
                                          : why.kind() != ErrorKind::kConfig;
    if (!spec_.hosts.empty() && is_away) hint_at_waiting();
    leave();
  }

  void hint_at_waiting() {
    if (!verdict_.hint.empty()) verdict_.hint += "; ";
    verdict_.hint += fmt::format(
        "{} SECONDS waits for longer{}", spec_.rendezvous ? "--join_timeout" : "--elastic_timeout",
        is_elastic(spec_) ? ""
                          : "; with --num_nodes MIN:MAX, a job continues without lost "
                            "hosts; a host with `spare` in the hostfile replaces one");
  }

  void on_finished() {
    if (done_) return;
    output_.flush();
    if (const auto& unstarted = coordinator_->unstarted();
        unstarted && !stopping_ && killed_by_.empty())
      return cannot_start(unstarted->why, unstarted->host);
    verdict_ = coordinator_->verdict();
    log_info("attempt {} ended with exit code {}", attempt_, verdict_.exit_code);
    verdict_.restarts = restarts_;
    if (!killed_by_.empty()) {
      verdict_.outcome = Verdict::Outcome::kStopped;
      verdict_.exit_code = 128 + SIGINT;
      verdict_.reason = "stopped at once by " + killed_by_;
    } else if (is_growing_ && !stopping_ && verdict_.exit_code == kExitStoppedEarly) {
      joined_.let_others_join();
      return restart(/*after_failure=*/false);
    } else if (!stopping_ && (goes_back() || goes_on_without_joined())) {
      return restart();
    } else if (!stopping_ && coordinator_->is_worth_a_restart()) {
      for (const std::string& host : lost_hosts()) joined_.lose(host);
      if (const auto count = restarts_left_.take(verdict_)) {
        joined_.forget_why();
        report_restart(*count);
        return restart();
      }
      verdict_.no_restart = restarts_left_.why_none(verdict_);
    }
    leave();
  }

  std::vector<std::string> lost_hosts() const {
    if (verdict_.rank >= 0) return {};
    std::vector<std::string> out = verdict_.lost_hosts;
    out.push_back(verdict_.host);
    return out;
  }

  /// If the data of a host that has joined differ, the job goes on without it, and without what was
  /// trained with it.
  bool goes_back() {
    const auto to = joined_.before_other_data(verdict_.host);
    if (!to) return false;
    roster_.leave_out(
        to->host,
        what_failed() +
            (to->host == verdict_.host ? "" : "; of the two, host " + to->host + " joined later"));
    if (!to->checkpoint.empty()) {
      notice(fmt::format("training goes back to {}, from before host {} joined", to->checkpoint,
                         to->host));
      spec_.on_event(-1, "goes_back", {{"checkpoint", to->checkpoint}});
    }
    return true;
  }

  /// If an attempt that was made to let hosts join fails soon, the job goes on without them.
  bool goes_on_without_joined() {
    const bool loses_nothing = verdict_.rank >= 0 && !joined_.has_saved() &&
                               (verdict_.step <= 0 || !coordinator_->is_worth_a_restart());
    const std::vector<std::string> joined = joined_.joining(host_names());
    if (!loses_nothing || joined.empty()) return false;
    leave_out(joined, verdict_.host, what_failed());
    return true;
  }

  std::string what_failed() const { return text_of_failure(verdict_); }

  void report_restart(const std::string& count) {
    notice(fmt::format(
        "{}; restarting {}{}", what_failed(),
        spec_.num_workers == 1 ? "it" : fmt::format("all {} ranks", spec_.num_workers), count));
  }

  void leave() {
    done_ = true;
    console_.keep_last_lines();
    if (const std::string dropped = console_.what_was_dropped(); !dropped.empty()) notice(dropped);
    if (spec_.on_end) spec_.on_end(verdict_);
    end_loop(verdict_.exit_code);
  }

  void end_loop(int exit_code) {
    roster_.dismiss(exit_code, [this] { wait_for_reader(); });
  }

  /// The loop ends when what is queued for the console is out, or nobody wants to wait for that.
  void wait_for_reader() {
    const auto now = std::chrono::steady_clock::now();
    const bool is_in_a_hurry = stopping_ || cannot_start_ || !killed_by_.empty();
    const std::size_t before = std::exchange(unread_bytes_, console_.waiting_bytes());
    if (!is_in_a_hurry || unread_bytes_ < before) give_up_at_ = now + kReaderLimit;
    if (now >= give_up_at_) console_.give_up();
    if (console_.waiting_bytes() == 0) return io_.stop();
    reader_timer_.expires_after(std::chrono::milliseconds(10));
    reader_timer_.async_wait([this](const std::error_code&) { wait_for_reader(); });
  }

  void on_signal(int signal) {
    log_info("SIG{} received", sigabbrev_np(signal));
    obey(signal, fmt::format("SIG{}", sigabbrev_np(signal)));
  }

  void on_signal_at(const std::string& host, int signal) {
    if (!signals_.is_new(signal)) return;
    const std::string by = fmt::format("SIG{} on host {}", sigabbrev_np(signal), host);
    notice(fmt::format("{} counts for the whole job", by));
    obey(signal, by);
  }

  /// Acts on a signal, or on what asks for the same: `by` names it for the verdict.
  void obey(int signal, const std::string& by) {
    if (done_) {
      stopping_ = stopping_ || signal != SIGUSR2;
      return;
    }
    if (!coordinator_) return stop_without_ranks(signal, by);
    if (signal == SIGINT && ++interrupts_ >= 2) return kill_by("a second Ctrl-C");
    if (signal == SIGUSR2) return coordinator_->relay(signal, MessageKind::kCheckpoint);
    // A program that is not ours may take SIGUSR1 to mean anything: it need not stop the job.
    if (signal != SIGUSR1 || spec_.own_workers) {
      const bool is_first = !std::exchange(stopping_, true);
      roster_.begin_stop();
      if (is_first && !coordinator_->is_connecting() && !coordinator_->is_ending())
        spec_.on_event(-1, "stopping", {{"signal", sigabbrev_np(signal)}});
    }
    coordinator_->stop(signal, by);
  }

  void stop_without_ranks(int signal, const std::string& by) {
    const auto exit_code = exit_code_without_ranks(signal, spec_.own_workers);
    if (!exit_code) return notice(by + " has no effect, because no rank runs now");
    verdict_.outcome = Verdict::Outcome::kStopped;
    verdict_.exit_code = *exit_code;
    verdict_.reason =
        fmt::format("stopped by {} {}", by,
                    attempt_ == 0 ? "before all hosts had answered" : "while it waited to restart");
    stopping_ = true;
    leave();
  }

  void kill_by(const std::string& whom) {
    killed_by_ = whom;
    stopping_ = true;
    spec_.on_event(-1, "killing", nlohmann::json::object());
    roster_.begin_stop();
    coordinator_->kill();
  }

  // ---- what other commands ask ----

  void watch_requests() {
    requests_.async_wait(
        asio::posix::stream_descriptor::wait_read, [this](const std::error_code& error) {
          if (error) return;
          spec_.socket->serve({[this] { return status(); }, [this](bool now) { stop(now); }});
          watch_requests();
        });
  }

  nlohmann::json status() const {
    nlohmann::json status = coordinator_ ? coordinator_->status() : status_without_ranks();
    status["launcher"] = {{"host", host_name()}, {"pid", getpid()}};
    status["restarts"] = restarts_;
    if (spec_.add_status) spec_.add_status(status);
    return status;
  }

  nlohmann::json status_without_ranks() const {
    nlohmann::json status{{"state", attempt_ == 0 ? "connecting" : "restarting"}};
    if (is_after_failure_) status["reason"] = what_failed();
    if (const auto hosts = roster_.awaited_hosts(); !hosts.empty()) status["waits_for"] = hosts;
    return status;
  }

  void stop(bool now) {
    const std::string by = now ? "hgtrain stop --now" : "hgtrain stop";
    if (now && coordinator_ && !done_) return kill_by(by);
    obey(SIGTERM, by);
  }

  void on_console_gone() {
    if (std::exchange(console_gone_, true) || done_) return;
    notice("nobody reads the output any more: stopping");
    asio::post(io_, [this] { obey(SIGTERM, "hgtrain, because nobody reads its output any more"); });
  }

  JobSpec spec_;
  const JobGroup group_;  // before this process is a subreaper
  const Subreaper subreaper_;
  RestartBudget restarts_left_;
  asio::io_context io_;
  JobSignals signals_;
  asio::posix::stream_descriptor requests_{io_};
  asio::steady_timer reader_timer_{io_};
  ConsoleQueue console_;
  MergedOutput output_{io_,
                       {[this](OutputSink::Stream stream, std::string_view text) {
                          console_.write(stream, text);
                          if (spec_.socket) spec_.socket->show(stream == OutputSink::kErr, text);
                        },
                        [this] { return console_.is_full(); }}};
  const std::set<pid_t> children_before_;
  Roster roster_{io_,
                 output_,
                 spec_.host_lease,
                 {[this] { on_ready(); }, [this](const Error& why) { cannot_start(why); },
                  [this](AgentLink& link, const Frame& frame) {
                    if (coordinator_) coordinator_->on_frame(link, frame);
                  },
                  [this](AgentLink& link, const std::string& why) {
                    if (!done_ && coordinator_) coordinator_->on_lost(link, why);
                  },
                  [this](const std::string& host) { on_returned(host); },
                  [this](const std::string& text) { notice(text); },
                  [this](const std::string& host, int signal) { on_signal_at(host, signal); }}};
  std::map<std::string, std::string> inherited_;  // by the agents of other hosts
  std::unique_ptr<Coordinator> coordinator_;
  std::optional<Error> cannot_start_;
  int attempt_ = 0;
  int restarts_ = 0;               // attempts that were started after a failure
  bool is_after_failure_ = false;  // the next one is
  Verdict verdict_;
  int interrupts_ = 0;
  std::string killed_by_;  // who asked for the end at once
  std::size_t unread_bytes_ = std::numeric_limits<std::size_t>::max();
  std::chrono::steady_clock::time_point give_up_at_;  // if nothing more is read
  bool stopping_ = false;
  bool is_growing_ = false;  // the attempt was stopped for another one on more hosts
  JoinedHosts joined_;
  bool console_gone_ = false;
  bool done_ = false;
};

}  // namespace

std::vector<std::string> agent_command(const JobHost& host) {
  static const ProgramFiles files(own_program());
  return ssh_command(host, files, "NONCE");
}

Verdict run_job(const JobSpec& spec) {
  return Job(spec).run();
}

}  // namespace hgt
