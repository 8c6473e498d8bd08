#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace hgt {

/// Which hosts of a job have joined it while it ran, and at which checkpoint: the job can go on
/// without them, and go back to that checkpoint.
class JoinedHosts {
 public:
  /// An attempt begins on these hosts.
  void begin(std::vector<std::string> hosts);
  /// Handles an event of a rank.
  void hear(std::string_view kind, const nlohmann::json& body);
  /// This attempt was stopped only to let hosts join.
  void let_others_join() { before_ = {now_.begin(), now_.end()}; }
  /// A failure has ended it: the next attempt is made for that, whoever joins.
  void forget_why() { before_.clear(); }
  /// The host was lost: what it has when it comes back is not known.
  void lose(const std::string& host) { since_.erase(host); }

  /// The hosts of an attempt on `hosts` without which it would not be made.
  std::vector<std::string> joining(const std::vector<std::string>& hosts) const;
  /// Whether a checkpoint was saved in this attempt.
  bool has_saved() const { return has_saved_; }

  /// What was trained with a host that has other data is worth nothing. The checkpoint to go back
  /// to, "" = the last one; nullopt if the host is one of those with which the job began, or if
  /// the data are the same.
  std::optional<std::string> before_other_data(const std::string& host) const;

 private:
  std::vector<std::string> now_;
  std::set<std::string> before_;  // the hosts of the attempt that was stopped to let others join
  /// Since which checkpoint the host has trained without a break; nullopt = since the job began.
  std::map<std::string, std::optional<std::string>> since_;
  std::string last_saved_;
  bool has_begun_ = false;  // an attempt has
  bool has_saved_ = false, data_differ_ = false;
};

}  // namespace hgt
