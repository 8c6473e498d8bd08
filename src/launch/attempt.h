#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "hgtrain/launch/job.h"

#include "console_queue.h"
#include "failure.h"
#include "job_store.h"
#include "master_port.h"
#include "worker.h"

namespace hgt {

/// All workers of one attempt: starts them, watches them, stops them, and knows how it went. Must
/// outlive the loop, unless it is closed first.
class Attempt {
 public:
  struct Context {
    asio::io_context& io;
    const JobSpec& spec;
    std::string program;     ///< the file to execute
    ConsoleQueue* console;   ///< nullptr = the workers' output is not shown
    int group_fd;            ///< of the job's control group, -1 = none
    std::set<pid_t> others;  ///< children of this process that are none of the job's
    std::function<void(const std::string& text)> notice;
    std::function<void()> finished;  ///< nothing is left, or what is left cannot be killed
  };

  Attempt(Context context, int number);

  /// Starts all workers. Error if one cannot be started; then none is left running.
  void start();

  /// The user's signal: our workers finish their step and checkpoint, others get it passed on.
  void stop(int signal);
  /// Passes on a signal that need not end anything; our workers get `command` instead.
  void relay(int signal, MessageKind command);
  void kill();

  /// Gives up all descriptors once it has finished; once what is queued on the loop has run, it may
  /// be destroyed.
  void close();

  Verdict verdict() const;
  /// It failed, and another attempt may do better.
  bool is_worth_a_restart() const;

 private:
  enum class Stage {
    kRunning,
    kStopping,
    kAborting,
    kTerminating,
    kKilling,
    kKillingGuards,
    kFinished
  };

  void start_worker(int rank, const std::vector<std::string>& argv);
  Worker::Events worker_events();
  void advance(Stage next);
  void then(Stage next, std::chrono::milliseconds after);
  void signal_all(int number);
  void command_all(std::string_view frame);

  void on_event(Worker& worker, const std::string& kind, const nlohmann::json& body);
  void on_ended(Worker& worker);
  void on_gone();
  void on_orphaned(const Worker& worker);
  void on_broken(Worker& worker, const std::string& why);
  void fail(const Failure& failure);
  void watch_for_hangs();
  void check_for_hangs();
  std::optional<Hang> hang_after(std::chrono::milliseconds silent,
                                 std::chrono::milliseconds still) const;
  void blame_straggler(const Worker& waiting);
  bool obeys_commands(const Worker& worker) const;
  bool is_clean(const Worker& worker) const;

  void describe_stop(Verdict& verdict) const;
  std::string hint_of_port() const;
  void describe(Verdict& verdict, const Failure& failure) const;

  const Context context_;
  const JobSpec& spec_;
  const int number_;
  const JobKey key_ = JobKey::random();
  const MasterPort port_;
  const std::optional<long> oom_kills_before_;
  JobStore store_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::map<int, std::int64_t> signalled_ns_;  // by rank: when we first sent it a signal
  std::map<int, Failure> failures_;           // by rank
  Stage stage_ = Stage::kRunning;
  int stop_signal_ = 0;
  asio::steady_timer stage_timer_;
  asio::steady_timer hang_timer_;
  std::int64_t hang_check_ns_ = 0;
};

}  // namespace hgt
