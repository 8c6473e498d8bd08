#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <sys/prctl.h>

#include <asio/connect.hpp>
#include <asio/io_context.hpp>
#include <asio/write.hpp>
#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/log.h"
#include "hgtrain/base/own_thread.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/launch/rendezvous.h"

#include "agent.h"
#include "children.h"
#include "job_group.h"
#include "job_signals.h"
#include "tls_carrier.h"

namespace hgt {
namespace {

using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLongestTry{10'000};
constexpr std::chrono::milliseconds kShortestTry{1000};  // node 0 may answer at the last moment
constexpr std::chrono::seconds kNodeDriverLimit{50};     // node 0 waits for longer
constexpr std::chrono::seconds kQuietLimit{10};          // then the user learns what is waited for
constexpr std::chrono::milliseconds kFirstPause{100}, kLongestPause{2000};

std::string address_text(const Rendezvous& rendezvous) {
  const bool is_v6 = rendezvous.address.find(':') != std::string::npos;
  return fmt::format(fmt::runtime(is_v6 ? "[{}]:{}" : "{}:{}"), rendezvous.address,
                     rendezvous.port);
}

/// This node, in messages.
std::string name_of(const Rendezvous& rendezvous) {
  return rendezvous.node == kAnyNode ? "this node" : fmt::format("node {}", rendezvous.node);
}

/// A signal that ends this node, because node 0 is not there to decide.
struct StoppedBySignal {
  int signal;
  int exit_code;
};

/// Dials node 0 until it answers.
class Dialler {
 public:
  Dialler(asio::io_context& io, const Rendezvous& rendezvous, Clock::time_point deadline)
      : io_(io),
        rendezvous_(rendezvous),
        deadline_(deadline),
        tls_(std::make_shared<JobTls>(JobTls::Side::kClient, rendezvous.secret)) {}

  /// Error(kPeer) at the deadline.
  std::shared_ptr<TlsCarrier> dial(const std::string& join) {
    const Clock::time_point start = Clock::now();
    bool has_reported = false;
    for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      if (auto stream = try_once(join))
        return std::make_shared<TlsCarrier>(std::move(stream), tls_);
      const auto waited = Clock::now() - start;
      log_info("node 0 at {} does not answer: {}", address_text(rendezvous_), why_);
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now());
      if (left.count() <= 0)
        throw Error(
            ErrorKind::kPeer,
            fmt::format(
                "{} has not reached node 0 at {} within {} s: {}{}", name_of(rendezvous_),
                address_text(rendezvous_), rendezvous_.join_timeout.count(), why_,
                met_stranger_ && why_ != kStranger ? fmt::format("; before, {}", kStranger) : ""),
            met_stranger_ ? kStrangerHint : hint_);
      if (waited > kQuietLimit && !std::exchange(has_reported, true))
        tell("hgtrain: {} is waiting for node 0 at {}: {}\n  hint: {}\n", name_of(rendezvous_),
             address_text(rendezvous_), why_, hint_);
      io_.restart();
      io_.run_for(std::min(pause, left));
    }
  }

 private:
  static constexpr const char* kStranger = "what listens there does not know this job's secret";
  static constexpr const char* kStrangerHint =
      "give all nodes the same job secret, and a --master_port that no other job uses";

  /// nullptr if it fails; why_ says why.
  std::unique_ptr<TlsStream> try_once(const std::string& join) {
    std::error_code error;
    const auto endpoints = resolve(error);
    if (error)
      return failed(
          error == asio::error::timed_out ? "the name servers do not answer" : error.message(),
          "name node 0 by an address in place of the name, on every node");
    auto stream = std::make_unique<TlsStream>(io_, tls_->context());
    error = run(*stream,
                [&](auto done) { asio::async_connect(stream->lowest_layer(), endpoints, done); });
    if (error)
      return failed(error.message(),
                    "node 0 must run there, with the same --master_port, and no firewall between");
    stream->lowest_layer().set_option(tcp::no_delay(true), error);
    error = run(*stream, [&](auto done) { stream->async_handshake(TlsStream::client, done); });
    const bool is_answer = !error || error.category() == asio::error::get_ssl_category();
    if (is_answer && (error || !JobTls::knows_secret(*stream))) {
      met_stranger_ = true;
      return failed(kStranger, kStrangerHint);
    }
    if (!error)
      error =
          run(*stream, [&](auto done) { asio::async_write(*stream, asio::buffer(join), done); });
    if (error == asio::error::timed_out)
      return failed("something listens there, but does not answer",
                    "node 0 must run there, with the same --master_port");
    if (error) return failed(error.message(), "what listens there has ended the connection");
    return stream;
  }

  std::unique_ptr<TlsStream> failed(const std::string& why, const std::string& hint) {
    why_ = why;
    hint_ = hint;
    return nullptr;
  }

  /// Signals are obeyed meanwhile. What takes longer than one try may is waited for by the next.
  tcp::resolver::results_type resolve(std::error_code& error) try {
    constexpr std::chrono::milliseconds kPeriod{10};
    if (!found_.valid())
      found_ = in_own_thread([host = rendezvous_.address, port = rendezvous_.port] {
        asio::io_context io;
        return tcp::resolver(io).resolve(host, std::to_string(port));
      });
    for (const auto end = Clock::now() + try_limit(); !is_ready(found_);) {
      if (Clock::now() >= end) {
        error = asio::error::timed_out;
        return {};
      }
      io_.restart();
      io_.run_for(kPeriod);
    }
    return found_.get();
  } catch (const std::system_error& e) {
    error = e.code();
    return {};
  }

  /// Not far beyond the deadline.
  std::chrono::milliseconds try_limit() const {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now());
    return std::clamp(left, kShortestTry, kLongestTry);
  }

  /// Runs the operation that `start` begins on `stream` to its end, but no longer than one try may
  /// take.
  template <class Start>
  std::error_code run(TlsStream& stream, const Start& start) {
    std::error_code result = asio::error::timed_out;
    bool is_done = false;
    start([&](const std::error_code& error, auto&&...) {
      is_done = true;
      result = error;
      io_.stop();
    });
    io_.restart();
    io_.run_for(try_limit());
    if (is_done) return result;
    std::error_code ignored;
    stream.lowest_layer().close(ignored);
    io_.restart();
    io_.run();  // until the operation has ended, too
    return asio::error::timed_out;
  }

  asio::io_context& io_;
  const Rendezvous& rendezvous_;
  const Clock::time_point deadline_;
  const std::shared_ptr<JobTls> tls_;
  std::future<tcp::resolver::results_type> found_;
  std::string why_, hint_;
  bool met_stranger_ = false;
};

std::string join_frame(const Rendezvous& rendezvous, const std::vector<JobHost>& hosts) {
  const JobHost& self = hosts[static_cast<std::size_t>(std::max(0, rendezvous.node))];
  return encode_frame(
      Join::kKind,
      encode_payload(Join{kAgentVersion, rendezvous.node, random_suffix(),
                          static_cast<std::int32_t>(hosts.size()), self.workers, host_name(),
                          machine_of(rendezvous), rendezvous.config, rendezvous.settings}));
}

/// One connection to node 0, until it ends.
class Connection {
 public:
  Connection(const Rendezvous& rendezvous, const JobGroup& group, Clock::time_point deadline)
      : rendezvous_(rendezvous),
        group_(group),
        dialler_(io_, rendezvous, deadline),
        signals_(io_, [this](int signal) { on_signal(signal); }) {
    signals_.start();
  }

  /// Dials after `pause`, because node 0 may still wait for what it has lost here. Says when node 0
  /// has accepted this node, and if it `comes_back`. Returns why the connection has ended. What has
  /// been started is gone then. StoppedBySignal if a signal ends this node before it has reached
  /// node 0.
  std::string run(const std::string& join, std::chrono::milliseconds pause, bool comes_back) {
    io_.run_for(pause);
    const std::shared_ptr<TlsCarrier> carrier = dialler_.dial(join);
    io_.restart();
    std::string out;
    auto [in, to] = carrier->start();
    agent_.emplace(Agent::Context{io_, group_.join_fd(), [before = children()] { return before; },
                                  Lease::kDefault,
                                  [&](const std::string& why) {
                                    out = why;
                                    io_.stop();
                                  },
                                  kNodeDriverLimit},
                   std::move(in), std::move(to));
    agent_->look_at_devices();
    while (!agent_->is_welcome() && io_.run_one() > 0) {
    }
    if (agent_->is_welcome() && (comes_back || !rendezvous_.shares_output))
      tell("hgtrain: {} has joined node 0 at {}{}\n", name_of(rendezvous_),
           address_text(rendezvous_), comes_back ? " again" : ", which reports on the job");
    io_.run();
    if (stopped_ && !agent_->exit_code()) throw *stopped_;
    return out;
  }

  const Agent& agent() const { return *agent_; }

 private:
  void on_signal(int signal) {
    const auto exit_code = exit_code_without_ranks(signal, rendezvous_.trains);
    if (exit_code) stopped_ = StoppedBySignal{signal, *exit_code};
    if (agent_) return agent_->report_signal(signal);
    if (stopped_) throw *stopped_;
    tell("hgtrain: SIG{} has no effect, because no rank runs now\n", sigabbrev_np(signal));
  }

  asio::io_context io_;
  const Rendezvous& rendezvous_;
  const JobGroup& group_;
  Dialler dialler_;
  JobSignals signals_;
  std::optional<Agent> agent_;
  std::optional<StoppedBySignal> stopped_;  ///< if node 0 does not say how the job has ended
};

}  // namespace

int run_node(const Rendezvous& rendezvous, const std::vector<JobHost>& hosts) try {
  std::signal(SIGPIPE, SIG_IGN);
  const JobGroup group;  // before this process is a subreaper
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const std::string join = join_frame(rendezvous, hosts);
  const std::string place = address_text(rendezvous);
  Clock::time_point deadline = Clock::now() + rendezvous.join_timeout;
  bool comes_back = false;
  for (std::chrono::milliseconds pause{0};; pause = kLongestPause) {
    Connection connection(rendezvous, group, deadline);
    const std::string why = connection.run(join, pause, comes_back);
    const Agent& agent = connection.agent();
    if (const auto exit_code = agent.exit_code()) {
      if (!agent.is_welcome())
        tell("hgtrain: the job of node 0 at {} has ended already, with exit code {}\n", place,
             *exit_code);
      else if (*exit_code != 0 && !rendezvous.shares_output)
        tell("hgtrain: the job has ended with exit code {}; node 0 at {} says why\n", *exit_code,
             place);
      return *exit_code;
    }
    if (agent.refusal())
      throw Error(
          ErrorKind::kConfig,
          fmt::format("node 0 at {} refuses {}: {}", place, name_of(rendezvous), *agent.refusal()),
          fmt::format("type the same command on every node{}",
                      rendezvous.node == kAnyNode ? "" : ", with another --node_rank"));
    if (!agent.is_welcome() && Clock::now() >= deadline)
      throw Error(ErrorKind::kPeer,
                  fmt::format("node 0 at {} has not let {} join within {} s", place,
                              name_of(rendezvous), rendezvous.join_timeout.count()),
                  "its own output says more");
    if (agent.is_welcome() && !rendezvous.rejoins)
      throw Error(ErrorKind::kPeer, fmt::format("node 0 at {} is lost: {}", place, why),
                  "its own output says more; ranks that still ran here were killed");
    if (agent.is_welcome()) {
      tell("hgtrain: node 0 at {} is lost: {}; {} tries to join again\n", place, why,
           name_of(rendezvous));
      deadline = Clock::now() + rendezvous.join_timeout;
      comes_back = true;
    }
  }
} catch (const StoppedBySignal& stopped) {
  tell("hgtrain: stopped by SIG{} while {} waited for node 0 at {}\n", sigabbrev_np(stopped.signal),
       name_of(rendezvous), address_text(rendezvous));
  return stopped.exit_code;
}

}  // namespace hgt
