#include "rank_commands.h"

#include <csignal>

#include <catch2/catch.hpp>

#include "merged_output.h"
#include "silent_agent.h"

using namespace hgt;

namespace {

/// Rank 0 has said hello, rank 1 never does; both on one host.
struct CommandedAttempt {
  CommandedAttempt() {
    record.hosts = {{&agent.link, 0, 2, {}}};
    record.ranks.resize(2);
    for (int rank = 0; rank < 2; ++rank) {
      record.ranks[static_cast<std::size_t>(rank)].pulse.rank = rank;
      record.ranks[static_cast<std::size_t>(rank)].pulse.greeted = rank == 0;
    }
  }
  /// "stop to rank 0", "SIGTERM to rank 1", ... in the order in which they were sent.
  std::vector<std::string> sent() {
    std::vector<std::string> out;
    for (const Frame& frame : agent.received(io)) {
      if (frame.kind == MessageKind::kRankCommand) {
        const auto message = decode_payload<RankCommand>(frame.payload);
        FrameReader reader;
        reader.feed(message.frame);
        const MessageKind kind = reader.next()->kind;
        out.push_back((kind == MessageKind::kStop         ? "stop to rank "
                       : kind == MessageKind::kCheckpoint ? "checkpoint to rank "
                                                          : "? to rank ") +
                      std::to_string(message.rank));
      } else if (frame.kind == MessageKind::kSignalRanks) {
        const auto message = decode_payload<SignalRanks>(frame.payload);
        out.push_back(std::string("SIG") + sigabbrev_np(message.signal) + " to rank " +
                      std::to_string(message.rank));
      }
    }
    return out;
  }

  asio::io_context io;
  MergedOutput console{io, {}};
  SilentAgent agent{io, console, "a"};
  JobSpec spec;
  AttemptRecord record{spec, 3, {}, {}};
  RankCommands commands{record};
};

using Sent = std::vector<std::string>;

}  // namespace

TEST_CASE("a rank that has said hello is asked to stop by a command, another one by a signal") {
  CommandedAttempt attempt;
  attempt.commands.ask_to_stop(SIGTERM);
  CHECK(attempt.sent() == Sent{"stop to rank 0", "SIGTERM to rank 1"});
}

TEST_CASE("a rank that has ended gets neither commands nor signals") {
  CommandedAttempt attempt;
  attempt.record.ranks[0].end = attempt.record.ranks[1].end = Ended{};
  attempt.commands.ask_to_stop(SIGTERM);
  attempt.commands.relay(SIGUSR2, MessageKind::kCheckpoint);
  attempt.commands.command_all(encode_frame(MessageKind::kStop, ""));
  CHECK(attempt.sent() == Sent{});
  CHECK_FALSE(attempt.commands.any_left(true));
  CHECK_FALSE(attempt.commands.any_left(false));
}

TEST_CASE("of the ranks that obey commands, one gets a request that it passes on to the others") {
  CommandedAttempt attempt;
  attempt.record.ranks[1].pulse.greeted = true;
  attempt.commands.relay(SIGUSR2, MessageKind::kCheckpoint);
  CHECK(attempt.sent() == Sent{"checkpoint to rank 0"});
  attempt.record.ranks[0].pulse.greeted = false;
  attempt.commands.relay(SIGUSR2, MessageKind::kCheckpoint);
  CHECK(attempt.sent() == Sent{"SIGUSR2 to rank 0", "checkpoint to rank 1"});
}
