#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace hgt {

/// Which hosts of a job have joined it while it ran, when, and at which checkpoint: the job can go
/// on without them, and go back to that checkpoint.
class JoinedHosts {
 public:
  /// A host to leave out, and the checkpoint to go back to: "" = the last one.
  struct Return {
    std::string host, checkpoint;
    bool operator==(const Return&) const = default;
  };

  /// An attempt begins on these hosts, the first of which has rank 0.
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
  /// The checkpoints to which the job may have to go back, as long as the data of all hosts are not
  /// known to be the same.
  std::set<std::string> needed_checkpoints() const;
  /// Whether a checkpoint was saved in this attempt.
  bool has_saved() const { return has_saved_; }

  /// If the data of `host` were found to differ from those of rank 0's, what was trained with the
  /// one of them that has joined later is worth nothing. nullopt if both have been there since the
  /// job began.
  std::optional<Return> before_other_data(const std::string& host) const;

 private:
  /// A host trains without a break since then.
  struct Since {
    int start;  // how often the job had started to train before
    std::string checkpoint;
  };
  int start_of(const std::string& host) const;

  std::vector<std::string> now_;
  std::set<std::string> before_;  // the hosts of the attempt that was stopped to let others join
  std::map<std::string, Since> since_;
  std::string last_saved_;
  int starts_ = 0;
  bool has_saved_ = false, data_differ_ = false;
};

}  // namespace hgt
