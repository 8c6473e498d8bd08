#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/launch/verdict.h"

namespace hgt {

/// Decides which failures of a job are followed by a restart. Only restarts without progress in
/// between count; progress is a checkpoint of a later step than any before.
class RestartBudget {
 public:
  /// `max_lost_hosts`: how many losses of hosts do not count as restarts.
  RestartBudget(int max_restarts, int max_lost_hosts)
      : max_restarts_(max_restarts), max_lost_hosts_(max_lost_hosts) {}

  /// Handles an event of a rank. Returns whether it is progress.
  bool hear(std::string_view kind, const nlohmann::json& body);

  /// Takes one restart for a failed attempt; nullopt if none is left. Returns how many of the job's
  /// restarts have been taken, for a message: " (1 of 3)", or "" if this one does not count.
  std::optional<std::string> take(const Verdict& failed);
  /// Why take() has returned none, if the failed attempt alone does not say it; else "".
  std::string why_none(const Verdict& failed) const;

 private:
  const int max_restarts_;
  const int max_lost_hosts_;
  int fruitless_restarts_ = 0;   // since the last progress
  int lost_hosts_ = 0;           // since then
  std::int64_t saved_step_ = 0;  // the last step that is in a checkpoint
};

}  // namespace hgt
