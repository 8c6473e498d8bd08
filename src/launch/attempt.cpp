#include "attempt.h"

#include <algorithm>
#include <csignal>
#include <sys/wait.h>
#include <tuple>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/log.h"
#include "hgtrain/wire/messages.h"

#include "children.h"
#include "environment.h"
#include "oom.h"
#include "port_user.h"

namespace hgt {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAbortLimit{5'000};       // from `abort` to SIGTERM
constexpr milliseconds kGuardLimit{5'000};       // from SIGKILL to killing the guards themselves
constexpr milliseconds kUnkillableLimit{5'000};  // from then to giving up
constexpr milliseconds kSilentLimit{30'000};
constexpr std::chrono::seconds kHangCheck{1};

/// For the log, by Stage.
constexpr const char* kStageTexts[] = {"running",
                                       "stopping: every rank is to save and end",
                                       "aborting: every rank is to end",
                                       "sending SIGTERM to every rank",
                                       "sending SIGKILL to every rank",
                                       "killing the guards",
                                       "all ranks have ended"};

}  // namespace

Attempt::Attempt(Context context, int number)
    : context_(std::move(context)),
      spec_(context_.spec),
      number_(number),
      port_(spec_.master_port),
      oom_kills_before_(oom_kills()),
      stage_timer_(context_.io),
      hang_timer_(context_.io) {}

// ---- starting ----

void Attempt::start() {
  const std::vector<std::string> argv = spec_.argv(number_);
  try {
    for (int rank = 0; rank < spec_.num_workers; ++rank) start_worker(rank, argv);
  } catch (...) {
    for (const auto& worker : workers_) worker->kill_and_wait();
    throw;
  }
  watch_for_hangs();
}

void Attempt::start_worker(int rank, const std::vector<std::string>& argv) {
  if (!spec_.log_dir.empty()) unlink(error_file(spec_, rank).c_str());
  const std::vector<std::string> env = full_environment(
      worker_environment(spec_, rank, number_), {{"MASTER_PORT", std::to_string(port_.number())},
                                                 {"HGTRAIN_CONTROL_FD", std::to_string(kControlFd)},
                                                 {"HGTRAIN_JOB_KEY", key_.hex()}});
  RankOutput::Options options;
  options.log_path = log_file(spec_, rank);
  options.console = context_.console;
  options.prefix = spec_.num_workers > 1 ? fmt::format("[r{}] ", rank) : "";
  options.log_failed = context_.notice;
  RankOutput output(options);  // before there is a worker: this may throw
  workers_.push_back(std::make_unique<Worker>(
      context_.io, rank, spawn_guarded(rank, context_.program, argv, env, context_.group_fd), key_,
      store_, std::move(output), context_.console, worker_events()));
  const Worker& worker = *workers_.back();
  log_info("rank {}: pid {}, guard {}, log {}", rank, worker.pid(), worker.guard(),
           options.log_path.empty() ? "none" : options.log_path);
  if (spec_.on_event) spec_.on_event(rank, "spawned", {{"pid", worker.pid()}});
}

Worker::Events Attempt::worker_events() {
  return {[this](Worker& w) { on_ended(w); }, [this](Worker&) { on_gone(); },
          [this](Worker& w) { on_orphaned(w); },
          [this](Worker& w, const std::string& kind, const nlohmann::json& body) {
            on_event(w, kind, body);
          },
          [this](Worker& w, const std::string& why) { on_broken(w, why); }};
}

// ---- stopping ----

void Attempt::signal_all(int number) {
  for (const auto& worker : workers_) {
    if (worker->has_ended()) continue;
    signalled_ns_.emplace(worker->rank(), now_ns());
    worker->signal(number);
  }
}

void Attempt::command_all(std::string_view frame) {
  for (const auto& worker : workers_)
    if (!worker->has_ended() && obeys_commands(*worker)) worker->send(frame);
}

bool Attempt::obeys_commands(const Worker& worker) const {
  return spec_.own_workers || worker.is_greeted();
}

void Attempt::then(Stage next, milliseconds after) {
  stage_timer_.expires_after(after);
  stage_timer_.async_wait([this, next](const std::error_code& error) {
    if (!error) advance(next);
  });
}

/// Each stage asks harder than the one before and says when the next begins.
void Attempt::advance(Stage next) {
  if (next <= stage_) return;
  stage_ = next;
  log_info("{}", kStageTexts[static_cast<std::size_t>(next)]);
  const bool commands = std::any_of(workers_.begin(), workers_.end(), [this](const auto& worker) {
    return !worker->has_ended() && obeys_commands(*worker);
  });
  switch (next) {
    case Stage::kRunning:
      return;
    case Stage::kStopping:
      return commands ? then(Stage::kTerminating, spec_.stop_limit)
                      : then(Stage::kKilling, spec_.grace);
    case Stage::kAborting: {
      if (!commands) return advance(Stage::kTerminating);
      const Failure& failure = *first_failure(failures_);
      command_all(encode_abort(fmt::format(
          "rank {} {}", failure.rank, failure.message.empty() ? failure.reason : failure.message)));
      return then(Stage::kTerminating, std::min(kAbortLimit, spec_.grace));
    }
    case Stage::kTerminating:
      signal_all(SIGTERM);
      signal_all(SIGCONT);  // one that is stopped sees SIGTERM only then
      return then(Stage::kKilling, spec_.grace);
    case Stage::kKilling:
      signal_all(SIGKILL);
      return then(Stage::kKillingGuards, kGuardLimit);
    case Stage::kKillingGuards:
      for (const auto& worker : workers_) worker->kill_guard();
      return then(Stage::kFinished, kUnkillableLimit);
    case Stage::kFinished:
      stage_timer_.cancel();
      hang_timer_.cancel();
      if (!std::all_of(workers_.begin(), workers_.end(),
                       [](const auto& w) { return w->is_gone(); }))
        context_.notice("some processes cannot be killed: they are stuck in the kernel");
      return context_.finished();
  }
}

void Attempt::stop(int signal) {
  if (stage_ >= Stage::kAborting) return;
  if (signal == SIGUSR1 && !spec_.own_workers) return relay(signal, MessageKind::kStop);
  if (stop_signal_ == 0) stop_signal_ = signal;
  for (const auto& worker : workers_) {
    if (worker->has_ended()) continue;
    if (obeys_commands(*worker)) {
      worker->send(encode_frame(MessageKind::kStop, ""));
    } else {
      signalled_ns_.emplace(worker->rank(), now_ns());
      worker->signal(signal);
    }
  }
  advance(Stage::kStopping);
}

void Attempt::relay(int signal, MessageKind command) {
  bool commanded = false;  // one rank passes it on; sent to all, it might be obeyed twice
  for (const auto& worker : workers_) {
    if (worker->has_ended()) continue;
    if (!obeys_commands(*worker))
      worker->signal(signal);
    else if (!std::exchange(commanded, true))
      worker->send(encode_frame(command, ""));
  }
}

void Attempt::close() {
  stage_timer_.cancel();
  hang_timer_.cancel();
  for (const auto& worker : workers_) worker->close();
}

void Attempt::kill() {
  advance(Stage::kKilling);
}

// ---- what happens ----

void Attempt::on_event(Worker& worker, const std::string& kind, const nlohmann::json& body) {
  log_debug("rank {} sent {} {}", worker.rank(), kind,
            body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  // What it says after we have sent it a signal is our doing.
  if (kind == "failed" && !signalled_ns_.count(worker.rank()))
    fail(failure_from_event(worker.rank(), body));
  if (spec_.on_event) spec_.on_event(worker.rank(), kind, body);
}

void Attempt::on_broken(Worker& worker, const std::string& why) {
  if (!spec_.own_workers)
    return context_.notice(
        fmt::format("the control channel of rank {} is closed: {}", worker.rank(), why));
  Failure failure;
  failure.rank = worker.rank();
  failure.at_ns = now_ns();
  failure.exit_code = static_cast<int>(ErrorKind::kPeer);
  failure.reason = "broke the control channel: " + why;
  fail(failure);
}

bool Attempt::is_clean(const Worker& worker) const {
  const int code = exit_code_of(worker.end());
  return code == 0 || (spec_.own_workers && code == kExitStoppedEarly);
}

void Attempt::on_ended(Worker& worker) {
  const WorkerEnd& end = worker.end();
  log_info("rank {}: {}", worker.rank(), reason_of(end, false));
  const bool lost_guard = end.at_ns == 0;
  const std::int64_t at_ns = lost_guard ? now_ns() : end.at_ns;
  const auto signalled = signalled_ns_.find(worker.rank());
  if (is_clean(worker) || (signalled != signalled_ns_.end() && signalled->second <= at_ns)) return;

  Failure failure;
  failure.rank = worker.rank();
  failure.at_ns = at_ns;
  failure.exit_code = exit_code_of(end);
  if (spec_.own_workers) {
    failure.by_peer = failure.exit_code == static_cast<int>(ErrorKind::kPeer);
    failure.permanent = failure.exit_code >= static_cast<int>(ErrorKind::kConfig) &&
                        failure.exit_code <= static_cast<int>(ErrorKind::kData);
  }
  const bool out_of_memory = failure.exit_code == 128 + SIGKILL && !lost_guard &&
                             oom_kills().value_or(0) > oom_kills_before_.value_or(0);
  failure.reason = lost_guard ? "was killed with its guard process" : reason_of(end, out_of_memory);
  if (!lost_guard) failure.hint = hint_of(end, out_of_memory);
  fail(failure);
}

void Attempt::on_orphaned(const Worker& worker) {
  std::set<pid_t> keep = context_.others;
  for (const auto& other : workers_)
    if (!other->is_gone() && other.get() != &worker) keep.insert(other->guard());
  kill_other_children(keep);
}

void Attempt::fail(const Failure& failure) {
  log_info("rank {} failed: {}", failure.rank,
           failure.message.empty() ? failure.reason : failure.message);
  if (const auto known = failures_.find(failure.rank); known != failures_.end()) {
    // Its last words came before; now it has ended.
    if (known->second.reason.empty()) known->second.reason = failure.reason;
    return;
  }
  if (failure.by_peer && stage_ < Stage::kAborting)
    blame_straggler(*workers_[static_cast<std::size_t>(failure.rank)]);
  failures_.emplace(failure.rank, failure);
  advance(Stage::kAborting);
}

void Attempt::on_gone() {
  if (std::all_of(workers_.begin(), workers_.end(), [](const auto& w) { return w->is_gone(); }))
    advance(Stage::kFinished);
}

void Attempt::watch_for_hangs() {
  if (spec_.hang_limit.count() == 0) return;
  hang_timer_.expires_after(kHangCheck);
  hang_timer_.async_wait([this](const std::error_code& error) {
    if (error) return;
    check_for_hangs();
    if (stage_ <= Stage::kStopping) watch_for_hangs();
  });
}

void Attempt::check_for_hangs() {
  const std::int64_t now = now_ns();
  // A gap means that this process stood still (Ctrl-Z, a machine asleep), not the workers.
  const bool stood_still = hang_check_ns_ > 0 && now - hang_check_ns_ > 5'000'000'000;
  hang_check_ns_ = now;
  if (stood_still)
    for (const auto& worker : workers_) worker->forgive_silence(now);
  if (const auto hang = hang_after(std::min(kSilentLimit, spec_.hang_limit), spec_.hang_limit))
    fail(failure_from_hang(*hang));
}

/// A rank that has hung, of those that send heartbeats and have not failed.
std::optional<Hang> Attempt::hang_after(milliseconds silent, milliseconds still) const {
  std::vector<Pulse> pulses;
  for (const auto& worker : workers_)
    if (!worker->has_ended() && obeys_commands(*worker) && !failures_.count(worker->rank()))
      pulses.push_back(worker->pulse());
  return find_hang(pulses, now_ns(), silent, still);
}

/// A rank that waits for another may time out before the launcher does. If another rank has stood
/// still behind `waiting` for long, that rank is at fault.
void Attempt::blame_straggler(const Worker& waiting) {
  const milliseconds limit = std::min(kSilentLimit, spec_.hang_limit / 2);
  if (limit.count() == 0) return;
  const auto hang = hang_after(limit, limit);
  if (!hang) return;
  if (is_behind(workers_[static_cast<std::size_t>(hang->rank)]->pulse().last, waiting.pulse().last))
    failures_.emplace(hang->rank, failure_from_hang(*hang));
}

// ---- how it went ----

bool Attempt::is_worth_a_restart() const {
  const Failure* failure = first_failure(failures_);
  return failure && !failure->permanent && stop_signal_ == 0;
}

Verdict Attempt::verdict() const {
  Verdict out;
  out.world_size = spec_.num_workers;
  if (const Failure* failure = first_failure(failures_))
    describe(out, *failure);
  else
    describe_stop(out);
  return out;
}

void Attempt::describe(Verdict& out, const Failure& failure) const {
  const Worker& worker = *workers_[static_cast<std::size_t>(failure.rank)];
  out.outcome = Verdict::Outcome::kFailed;
  out.exit_code = failure.exit_code;
  out.rank = failure.rank;
  out.pid = worker.pid();
  out.host = host_name();
  out.reason = failure.reason.empty() ? "failed" : failure.reason;
  out.step = worker.is_greeted() ? worker.pulse().last.step : -1;
  out.message = failure.message.empty() ? message_in_error_file(error_file(spec_, failure.rank))
                                        : failure.message;
  out.hint = failure.hint;
  if (!spec_.own_workers && out.hint.empty()) out.hint = hint_of_port();
  out.context = failure.context;
  if (!spec_.own_workers)
    out.last_lines = worker.last_lines();
  else if (failure.message.empty())  // its own words say it better than its log
    out.last_lines = brief(worker.last_lines());
  out.log_path = log_file(spec_, failure.rank);
  out.stopped_ranks =
      static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [&](const auto& other) {
        return other->rank() != failure.rank && (!other->has_ended() || other->end().at_ns == 0 ||
                                                 other->end().at_ns >= failure.at_ns);
      }));
}

/// Nothing of the job is left to listen on MASTER_PORT, so a process that does has taken the port.
std::string Attempt::hint_of_port() const {
  const std::string user = port_user(port_.number());
  return user.empty() ? ""
                      : fmt::format(
                            "{} listens on MASTER_PORT {} and is not of this job; rank 0 "
                            "could not; --master_port chooses another",
                            user, port_.number());
}

void Attempt::describe_stop(Verdict& out) const {
  const Worker* first = nullptr;  // the first to end of those that did not end cleanly
  for (const auto& worker : workers_) {
    if (!worker->has_ended()) continue;
    if (exit_code_of(worker->end()) == kExitStoppedEarly) out.exit_code = kExitStoppedEarly;
    if (!is_clean(*worker) && (!first || worker->end().at_ns < first->end().at_ns))
      first = worker.get();
  }
  if (first) {
    out.exit_code = exit_code_of(first->end());
    // Our own SIGKILL is no news: what counts is why it was sent.
    if (out.exit_code == 128 + SIGKILL && stop_signal_) out.exit_code = 128 + stop_signal_;
  }
  if (out.exit_code == 0) return;
  out.outcome = Verdict::Outcome::kStopped;
  out.reason =
      stop_signal_ ? fmt::format("stopped by SIG{}", sigabbrev_np(stop_signal_)) : "stopped early";
  if (first && spec_.own_workers)
    out.reason += "; not every rank left in time, so some were killed";
}

}  // namespace hgt
