#include "rank_commands.h"

#include <algorithm>
#include <utility>

namespace hgt {

bool RankCommands::any_left(bool obeys) const {
  return std::ranges::any_of(attempt_.ranks, [&](const RankView& rank) {
    return !rank.end && takes_commands(rank) == obeys;
  });
}

void RankCommands::command(const RankView& rank, const std::string& frame) const {
  attempt_.link_of(rank).send(RankCommand{attempt_.number, rank.pulse.rank, frame});
}

void RankCommands::command_all(const std::string& frame) const {
  for (const RankView& rank : attempt_.ranks)
    if (!rank.end && takes_commands(rank)) command(rank, frame);
}

void RankCommands::ask_to_stop(int signal) const {
  for (const RankView& rank : attempt_.ranks) {
    if (rank.end) continue;
    if (takes_commands(rank))
      command(rank, encode_frame(MessageKind::kStop, ""));
    else
      attempt_.link_of(rank).send(SignalRanks{attempt_.number, rank.pulse.rank, signal});
  }
}

void RankCommands::relay(int signal, MessageKind kind) const {
  bool commanded = false;  // one rank passes it on; sent to all, it might be obeyed twice
  for (const RankView& rank : attempt_.ranks) {
    if (rank.end) continue;
    if (!takes_commands(rank))
      attempt_.link_of(rank).send(SignalRanks{attempt_.number, rank.pulse.rank, signal, false});
    else if (!std::exchange(commanded, true))
      command(rank, encode_frame(kind, ""));
  }
}

void RankCommands::signal_all(int signal) const {
  for (const HostRanks& host : attempt_.hosts)
    host.link->send(SignalRanks{attempt_.number, kAllRanks, signal});
}

void RankCommands::kill_guards() const {
  for (const HostRanks& host : attempt_.hosts) host.link->send(KillGuards{attempt_.number});
}

}  // namespace hgt
