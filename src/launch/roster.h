#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "hgtrain/base/error_list.h"
#include "hgtrain/launch/hosts.h"

#include "agent.h"
#include "agent_link.h"
#include "output_sink.h"
#include "ssh_host.h"

namespace hgt {

/// A host of the job that has answered. The ranks of a host are numbered one after another.
struct HostRanks {
  AgentLink* link;
  int first_rank;
  int num_ranks;
  JobHost spec;
};

/// Other hosts cannot use it.
bool is_loopback(const std::string& address);

/// The hosts of a job: calls each, and has a link to its agent. They stay for all attempts. Must
/// outlive the loop.
class Roster {
 public:
  struct Events {
    std::function<void()> ready;                     ///< all hosts have answered
    std::function<void(const Error& why)> unusable;  ///< instead: all hosts that cannot be used
    std::function<void(AgentLink&, const Frame& frame)> frame;     ///< after `ready`
    std::function<void(AgentLink&, const std::string& why)> lost;  ///< after `ready`
    std::function<void(const std::string& text)> notice;
  };

  /// Other machines have `lease` to say something.
  Roster(asio::io_context& io, OutputSink& console, std::chrono::milliseconds lease, Events events);

  /// This machine, with an agent on the same loop. Ready at once.
  void add_this_machine(const Agent::Context& context, int num_ranks);
  /// Other machines, each with an agent that ssh starts: the file `program` there. A few are called
  /// at a time: many logins at once are refused by sshd, and by users' identity services.
  void call(const std::vector<JobHost>& hosts, const std::string& program);
  /// Calls the hosts again that were lost, once nothing of the job can be left there; then `ready`
  /// or `unusable` comes again. At once if none was lost.
  void call_lost();

  std::vector<HostRanks> hosts() const;
  int num_ranks() const;
  /// Where the other hosts find the first one; "" = at the address of its interface, which its
  /// agent knows. Error(kConfig) if they cannot.
  std::string master_address() const;

 private:
  struct Host {
    JobHost spec;
    std::unique_ptr<SshHost> ssh;  // none for this machine
    std::unique_ptr<AgentLink> link;
    bool has_answered = false;  // with a hello, or it cannot be used
    bool is_lost = false;       // after that
    std::string address;        // by which ssh reached it
  };

  void call_next();
  void connect(Host& host, OwnedFd in, OwnedFd out);
  void on_frame(Host& host, const Frame& frame);
  void on_hello(Host& host, const AgentHello& hello);
  void on_lost(Host& host, const std::string& why);
  void on_unusable(Host& host, const std::string& why);
  void check_ready();

  asio::io_context& io_;
  OutputSink& console_;
  const std::chrono::milliseconds lease_;
  const Events events_;
  std::unique_ptr<Agent> agent_;  // of this machine
  std::string program_;
  std::vector<Host> hosts_;
  std::vector<Host> lost_;  // what the loop may still refer to
  asio::steady_timer fence_timer_;
  bool is_ready_ = false;
  bool is_fenced_ = false;  // no host is called
  ErrorList unusable_;
};

}  // namespace hgt
