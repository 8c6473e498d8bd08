#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>

namespace hgt {

/// The exit code if `signal` comes while no rank of the job runs, because it waits to begin or to
/// begin again. A training that is stopped then can be started again like one whose ranks have
/// saved. nullopt: the signal ends nothing.
std::optional<int> exit_code_without_ranks(int signal, bool own_workers);

/// The signals that a user or a scheduler sends to a job: those that this process receives while
/// this object lives, and those that agents report (is_new()). Must outlive the loop. The
/// destructor restores this process's signal handlers; until then SIGPIPE is ignored.
class JobSignals {
 public:
  /// `on_signal` is called for each new signal. A scheduler sends a signal to every node at nearly
  /// the same time, which counts as one signal.
  JobSignals(asio::io_context& io, std::function<void(int signal)> on_signal);

  void start();
  /// Whether a signal that the agent of another host has received is new.
  bool is_new(int signal);

 private:
  class Handlers {
   public:
    Handlers();
    ~Handlers();
    Handlers(const Handlers&) = delete;
    Handlers& operator=(const Handlers&) = delete;
    bool is_ignored(int signal) const { return before_.at(signal).sa_handler == SIG_IGN; }

   private:
    std::map<int, struct sigaction> before_;
  };
  struct Last {
    std::int64_t at_ns = 0;
    bool is_ours = false;  // it came to this process
  };

  bool is_news(int signal, bool is_ours);

  const Handlers handlers_;
  asio::signal_set signals_;
  const std::function<void(int signal)> on_signal_;
  std::map<int, Last> last_;
};

}  // namespace hgt
