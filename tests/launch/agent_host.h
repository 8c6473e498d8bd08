#pragma once

#include <csignal>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include "agent.h"
#include "agent_messages.h"
#include "frame_link.h"
#include "support/process.h"

namespace hgt {

/// The two ends of a stream between a coordinator and an agent, each as descriptors to read and to
/// write.
struct StreamPair {
  StreamPair() {
    std::signal(SIGPIPE, SIG_IGN);
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    for (int i = 0; i < 2; ++i) {
      in[i] = OwnedFd(ends[i]);
      out[i] = OwnedFd(fcntl(ends[i], F_DUPFD_CLOEXEC, 3));
    }
  }
  OwnedFd in[2];
  OwnedFd out[2];
};

/// An agent on a loop of its own, and the coordinator's end of its stream: what the agent has sent.
struct AgentHost {
  explicit AgentHost(std::chrono::milliseconds lease = {})
      : agent({io, -1, [this] { return agent_keeps; }, lease,
               [this](const std::string& why) { ended = why; }},
              std::move(stream.in[1]), std::move(stream.out[1])) {
    link.emplace(io, std::move(stream.in[0]), std::move(stream.out[0]),
                 FrameLink::Events{[this](const Frame& frame) { on_frame(frame); },
                                   [this](const std::string& why) { lost = why; }});
  }

  /// All messages of one kind that have come.
  template <class Message>
  std::vector<Message> all() const {
    std::vector<Message> out;
    for (const Frame& frame : frames)
      if (frame.kind == Message::kKind) out.push_back(decode_payload<Message>(frame.payload));
    return out;
  }
  /// Runs the loop until so many messages of a kind have come, and returns the last of them.
  template <class Message>
  Message wait_for(std::size_t count = 1) {
    run_until([&] { return all<Message>().size() >= count; });
    return all<Message>()[count - 1];
  }
  void run_until(const std::function<bool()>& condition) {
    while (!condition()) REQUIRE(io.run_one() > 0);
  }
  /// What the ranks have printed to stdout.
  const std::string& printed() const { return printed_; }
  /// A number that a rank prints as "NAME=NUMBER\n".
  pid_t number(const std::string& name) {
    std::string text;
    run_until([&] {
      text = printed();
      const std::size_t at = text.find(name + "=");
      return at != std::string::npos && text.find('\n', at) != std::string::npos;
    });
    return std::atoi(text.c_str() + text.find(name + "=") + name.size() + 1);
  }

  asio::io_context io;
  StreamPair stream;
  std::vector<Frame> frames;
  std::optional<std::string> ended;  ///< the agent says that it is done, and why
  std::optional<std::string> lost;   ///< the agent has closed the stream
  std::set<pid_t> agent_keeps;       ///< children of this process that the agent did not start
  Agent agent;
  std::optional<FrameLink> link;

 private:
  void on_frame(const Frame& frame) {
    frames.push_back(frame);
    if (frame.kind != MessageKind::kOutput) return;
    const auto output = decode_payload<Output>(frame.payload);
    if (output.stream == OutputSink::kOut) printed_ += output.text;
  }

  std::string printed_;
};

/// Ranks that run a shell script and whose output is shown.
inline Spawn shell_ranks(const std::string& script, int ranks = 1) {
  Spawn order;
  order.argv = {"/bin/sh", "-c", script};
  order.world_size = order.num_ranks = order.local_size = ranks;
  order.shown_stdout = order.shown_stderr = "all";
  return order;
}

}  // namespace hgt
