#include "local_ranks.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <unistd.h>
#include <utility>

#include <asio/post.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/log.h"
#include "hgtrain/machine/network.h"
#include "hgtrain/machine/resources.h"

#include "children.h"
#include "environment.h"
#include "failure.h"
#include "look_at_host.h"
#include "oom.h"
#include "ports.h"

namespace hgt {
namespace {

constexpr std::chrono::seconds kCheck{1};
constexpr std::chrono::milliseconds kOrphanPatience{100};  // because the loop waits meanwhile
constexpr int kStoppedChecks = 3;                          // one after another: for 2 s

void make_log_folder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (fs::path path = folder; !path.empty() && path != path.parent_path();
       path = path.parent_path())
    if (fs::exists(path, ignored) && !fs::is_directory(path, ignored))
      throw Error(ErrorKind::kConfig,
                  fmt::format("{} is not a folder that logs can be written to", path.string()),
                  "name another one: --log_dir FOLDER");
  make_folders(folder);
}

/// This program may be a copy that was sent to this host (program_files.h): then so is the worker.
Spawn with_worker_of_this_program(Spawn order) {
  namespace fs = std::filesystem;
  const fs::path ours = own_program().parent_path() / "hgtrain-worker";
  const bool is_worker = fs::path(order.argv.at(0)).filename() == ours.filename();
  if (order.own_workers && is_worker && path_exists(ours)) order.argv[0] = ours;
  return order;
}

JobSpec spec_of(const Spawn& order) {
  JobSpec spec;
  spec.argv = [argv = order.argv](int) { return argv; };
  spec.num_workers = order.world_size;
  spec.env = order.env;
  spec.run_id = order.run_id;
  spec.run_dir = order.run_dir;
  spec.log_dir = order.log_dir;
  spec.master_port = order.master_port;
  spec.own_workers = order.own_workers;
  spec.max_restarts = order.max_restarts;
  return spec;
}

}  // namespace

LocalRanks::LocalRanks(Context context, const Spawn& order)
    : context_(std::move(context)),
      order_(with_worker_of_this_program(order)),
      spec_(spec_of(order_)),
      oom_kills_before_(oom_kills()),
      store_(JobStore::kMaxBytes, {[this](const std::string& key, const std::string& value) {
                                     report(AgentStoreSet{order_.attempt, key, value});
                                   },
                                   [this](const std::string& key) {
                                     report(AgentStoreGet{order_.attempt, key});
                                   }}),
      timer_(context_.io) {}

// ---- starting ----

void LocalRanks::start() {
  is_starting_ = true;
  start_next();
}

void LocalRanks::start_next() try {
  if (!is_starting_) return;
  if (workers_.empty()) prepare_host();
  if (std::ssize(workers_) < order_.num_ranks) {
    start_worker(order_.first_rank + static_cast<int>(workers_.size()));
    renew_leases();
    return asio::post(context_.io, [this] { start_next(); });
  }
  is_starting_ = false;
  for (const auto& worker : workers_)
    report(Spawned{order_.attempt, worker->rank(), worker->pid()});
  for (const auto& act : std::exchange(waiting_, {})) act();
  if (!are_gone()) watch_workers();
} catch (...) {
  stop_starting();
  for (const auto& worker : workers_) worker->kill_and_wait();
  try {
    throw;
  } catch (const Error& e) {
    context_.cannot_start(e);
  }
}

void LocalRanks::once_started(std::function<void()> act) {
  if (!is_starting_) return act();
  waiting_.push_back(std::move(act));
}

void LocalRanks::stop_starting() {
  is_starting_ = false;
  waiting_.clear();
}

template <class Message>
void LocalRanks::report(Message message) {
  once_started([this, message = std::move(message)] { context_.link.send(message); });
}

void LocalRanks::renew_leases() {
  if (!has_lease() || context_.lease.has_passed()) return;
  for (const auto& worker : workers_) worker->renew_lease();
}

/// Makes this process like the launcher's shell: its children inherit that. Then the log folder.
void LocalRanks::prepare_host() {
  for (const auto& [name, value] : order_.inherited) ::setenv(name.c_str(), value.c_str(), 1);
  enter_folder(order_.folder);
  address_ = order_.address.empty() ? address_of(order_.interface) : order_.address;
  find_program(order_.argv.at(0), search_path(spec_));  // before any folder is made
  if (!spec_.log_dir.empty()) make_log_folder(spec_.log_dir);
}

/// A scheduler may have bound each of its tasks to cores of its own.
int LocalRanks::core_sharers() const {
  const bool is_bound = usable_cores() < sysconf(_SC_NPROCESSORS_ONLN);
  return is_bound ? order_.num_ranks : order_.local_size;
}

void LocalRanks::start_worker(int rank) {
  if (!spec_.log_dir.empty()) unlink(error_file(spec_, rank).c_str());
  const std::vector<std::string> env =
      full_environment(worker_environment(spec_, rank, static_cast<int>(order_.attempt),
                                          {order_.first_local_rank + rank - order_.first_rank,
                                           order_.local_size, order_.host, order_.num_hosts,
                                           order_.master_addr, address_, core_sharers()}),
                       {{"MASTER_PORT", std::to_string(order_.master_port)},
                        {"HGTRAIN_CONTROL_FD", std::to_string(kControlFd)},
                        {"HGTRAIN_JOB_KEY", key_.hex()}});
  RankOutput::Options options;
  options.log_path = log_file(spec_, rank);
  options.rank = rank;
  options.is_shown = {RankSet::parse(order_.shown_stdout).has(rank),
                      RankSet::parse(order_.shown_stderr).has(rank)};
  options.console = options.is_shown[0] || options.is_shown[1] ? &context_.console : nullptr;
  options.log_failed = [this](const std::string& text) { context_.link.send(Notice{text}); };
  RankOutput output(context_.logs, options);  // before there is a worker: this may throw
  const std::string program = find_program(order_.argv.at(0), search_path(spec_));
  // The disk may have stood still: then other hosts may have taken these ranks.
  if (context_.lease.has_passed())
    throw Error(ErrorKind::kDevice, "it stood still for too long while it started its ranks");
  workers_.push_back(std::make_unique<Worker>(
      context_.io, rank,
      spawn_guarded(rank, program, order_.argv, env, context_.group_fd,
                    std::chrono::duration_cast<std::chrono::milliseconds>(context_.lease.length()),
                    context_.guards_end_agent),
      key_, store_, std::move(output), worker_events()));
  const Worker& worker = *workers_.back();
  log_info("rank {}: pid {}, guard {}, log {}", rank, worker.pid(), worker.guard(),
           options.log_path.empty() ? "none" : options.log_path);
}

Worker::Events LocalRanks::worker_events() {
  return {[this](Worker& w) { on_ended(w); },
          [this](Worker& w) { on_gone(w); },
          [this](Worker& w) { on_orphaned(w); },
          [this](Worker& w, const std::string& name, const nlohmann::json& body) {
            report(RankEvent{order_.attempt, w.rank(), now_ns(), signalled_ns_.count(w.rank()) > 0,
                             name, body.dump()});
          },
          [this](Worker& w, const std::string& why) {
            report(ChannelBroken{order_.attempt, w.rank(), why});
          },
          [this](Worker& w, const Heartbeat& beat) {
            report(RankHeartbeat{order_.attempt, w.rank(), beat});
          }};
}

// ---- what the coordinator asks for ----

/// Visits the worker of `rank`, or all of them, if the program still runs.
template <class Visit>
void LocalRanks::for_ranks(int rank, const Visit& visit) {
  for (const auto& worker : workers_)
    if (!worker->has_ended() && (rank == kAllRanks || rank == worker->rank())) visit(*worker);
}

void LocalRanks::command(const RankCommand& message) {
  for_ranks(message.rank, [&](Worker& worker) { worker.send(message.frame); });
}

void LocalRanks::signal(const SignalRanks& message) {
  for_ranks(message.rank, [&](Worker& worker) {
    if (message.excuses) signalled_ns_.emplace(worker.rank(), now_ns());
    worker.signal(message.signal);
  });
}

void LocalRanks::kill_guards() {
  for (const auto& worker : workers_) worker->kill_guard();
}

void LocalRanks::close_channel(int rank) {
  for_ranks(rank, [](Worker& worker) { worker.close_channel(); });
}

void LocalRanks::put(const AgentStoreValue& message) {
  store_.put(message.key, message.value);
}

void LocalRanks::resume_output() {
  for (const auto& worker : workers_) worker->resume_output();
}

void LocalRanks::close() {
  stop_starting();
  timer_.cancel();
  for (const auto& worker : workers_) worker->close();
}

// ---- what happens ----

void LocalRanks::on_ended(const Worker& worker) {
  const WorkerEnd& end = worker.end();
  if (end.by_lease_end) return context_.lease_ended();
  Ended message{order_.attempt, worker.rank(), end.wait_status, end.max_rss_kib, end.at_ns};
  message.lost_guard = end.at_ns == 0;
  if (message.lost_guard) message.at_ns = now_ns();
  const auto signalled = signalled_ns_.find(worker.rank());
  message.signalled = signalled != signalled_ns_.end() && signalled->second <= message.at_ns;
  message.out_of_memory = exit_code_of(message) == 128 + SIGKILL && !message.lost_guard &&
                          oom_kills().value_or(0) > oom_kills_before_.value_or(0);
  log_info("rank {}: {}", worker.rank(), reason_of(message));
  report(message);
}

void LocalRanks::on_orphaned(const Worker& worker) {
  constexpr std::chrono::seconds kPatience{1};  // on a busy machine, what is killed ends later
  const std::set<pid_t> left = kill_orphans(has_orphans_ ? kOrphanPatience : kPatience);
  has_orphans_ = !left.empty();
  if (has_orphans_)
    context_.link.send(Notice{fmt::format(
        "these processes of rank {} on {} were killed, but a debugger or the kernel holds them: {}",
        worker.rank(), host_name(), fmt::join(left, ", "))});
}

/// Kills what killed guards have left behind; returns what is still there.
std::set<pid_t> LocalRanks::kill_orphans(std::chrono::milliseconds patience) {
  std::set<pid_t> keep = context_.others();
  for (const auto& worker : workers_)
    if (worker->has_guard()) keep.insert(worker->guard());
  return kill_other_children(keep, patience);
}

void LocalRanks::on_gone(const Worker& worker) {
  report(Gone{order_.attempt, worker.rank(), worker.last_lines(),
              message_in_error_file(error_file(spec_, worker.rank())), port_user_at_the_end()});
  if (!are_gone()) return;
  timer_.cancel();
  context_.gone();
}

bool LocalRanks::are_gone() const {
  return !is_starting_ &&
         std::all_of(workers_.begin(), workers_.end(), [](const auto& w) { return w->is_gone(); });
}

/// If nothing of the job is left to listen on MASTER_PORT, a process that does has taken the port.
/// It takes milliseconds to find, so a job that has not failed is not kept waiting for it.
std::string LocalRanks::port_user_at_the_end() const {
  const bool failed = std::any_of(workers_.begin(), workers_.end(), [](const auto& worker) {
    return worker->has_ended() && worker->end().wait_status != 0;
  });
  return failed && context_.held_port > 0 && !spec_.own_workers && are_gone()
             ? port_user(context_.held_port)
             : "";
}

/// Tells whoever waits for a stopped rank that it does not hang.
void LocalRanks::name_if_stopped(const Worker& worker) {
  int& checks = stopped_checks_[worker.rank()];
  const bool was_stopped = checks >= kStoppedChecks;
  checks = worker.is_stopped() ? checks + 1 : 0;
  const bool is_stopped = checks >= kStoppedChecks;
  if (is_stopped == was_stopped) return;
  context_.link.send(RankStopped{attempt(), worker.rank(), is_stopped});
  if (is_stopped)
    context_.link.send(Notice{
        fmt::format("rank {0} has been stopped by a signal; on {1}, `kill -CONT {2}` continues it",
                    worker.rank(), host_name(), worker.pid())});
}

void LocalRanks::watch_workers() {
  timer_.expires_after(kCheck);
  timer_.async_wait([this](const std::error_code& error) {
    if (error) return;
    for (const auto& worker : workers_) {
      name_if_stopped(*worker);
      worker->wake_stopped_guard();
    }
    has_orphans_ = has_orphans_ && !kill_orphans(kOrphanPatience).empty();
    renew_leases();
    watch_workers();
  });
}

}  // namespace hgt
