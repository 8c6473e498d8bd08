#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/launch/verdict.h"

namespace hgt {

/// Which failures of a job are worth a restart. Only restarts without progress in between count:
/// without a checkpoint of a later step than any before.
class RestartBudget {
 public:
  /// `max_lost_hosts`: so many losses of hosts cost no restart.
  RestartBudget(int max_restarts, int max_lost_hosts)
      : max_restarts_(max_restarts), max_lost_hosts_(max_lost_hosts) {}

  /// An event of a rank. True if it is progress.
  bool hear(std::string_view kind, const nlohmann::json& body);

  /// Takes one restart for a failed attempt; none is left: nullopt. Returns how many of the job's
  /// restarts have been taken, for a message: " (1 of 3)", or "" if this one costs none.
  std::optional<std::string> take(const Verdict& failed);

 private:
  const int max_restarts_;
  const int max_lost_hosts_;
  int fruitless_restarts_ = 0;   // since the last progress
  int lost_hosts_ = 0;           // since then
  std::int64_t saved_step_ = 0;  // the last step that is in a checkpoint
};

}  // namespace hgt
