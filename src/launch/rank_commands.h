#pragma once

#include <string>

#include "hgtrain/wire/messages.h"

#include "attempt_record.h"

namespace hgt {

/// Has the agents of an attempt pass commands and signals to its ranks. A rank that has ended gets
/// nothing.
class RankCommands {
 public:
  explicit RankCommands(const AttemptRecord& attempt) : attempt_(attempt) {}

  /// Whether some rank that has not ended obeys commands, or, if `obeys` is false, does not.
  bool any_left(bool obeys) const;

  /// A frame for all ranks that obey commands.
  void command_all(const std::string& frame) const;
  /// The user's request to stop: ranks that obey commands get `stop`, the others `signal`.
  void ask_to_stop(int signal) const;
  /// Passes on a user's signal that does not ask the job to stop: as the command `kind` to one rank
  /// that obeys commands, unchanged to each rank that does not.
  void relay(int signal, MessageKind kind) const;
  void signal_all(int signal) const;
  void kill_guards() const;

 private:
  void command(const RankView& rank, const std::string& frame) const;
  bool takes_commands(const RankView& rank) const { return obeys_commands(attempt_, rank); }

  const AttemptRecord& attempt_;
};

}  // namespace hgt
