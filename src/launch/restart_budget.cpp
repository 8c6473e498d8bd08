#include "restart_budget.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace hgt {

bool RestartBudget::hear(std::string_view kind, const nlohmann::json& body) {
  if (kind != "started" && kind != "checkpoint") return false;
  const std::int64_t step = body.at("step");
  const bool is_progress = kind == "checkpoint" && step > saved_step_;
  if (is_progress) fruitless_restarts_ = lost_hosts_ = 0;
  saved_step_ = std::max(saved_step_, step);
  return is_progress;
}

std::optional<std::string> RestartBudget::take(const Verdict& failed) {
  if (failed.rank < 0 && lost_hosts_ < max_lost_hosts_) {
    ++lost_hosts_;
    return "";
  }
  if (fruitless_restarts_ >= max_restarts_) return std::nullopt;
  ++fruitless_restarts_;
  return fmt::format(
      " ({} of {}{})", fruitless_restarts_, max_restarts_,
      saved_step_ > 0 ? fmt::format(" since the checkpoint of step {}", saved_step_) : "");
}

std::string RestartBudget::why_none(const Verdict& failed) const {
  if (failed.rank >= 0 || max_lost_hosts_ == 0) return "";
  return fmt::format(
      "{} losses of hosts without a new checkpoint in between were restarted; --max_restarts N "
      "allows N more",
      lost_hosts_);
}

}  // namespace hgt
