#include "joined_hosts.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

namespace hgt {

void JoinedHosts::begin(std::vector<std::string> hosts) {
  now_ = std::move(hosts);
  has_saved_ = data_differ_ = false;
}

void JoinedHosts::hear(std::string_view kind, const nlohmann::json& body) {
  if (kind == "started") {
    last_saved_ = body.value("from", "");
    std::erase_if(since_,
                  [&](const auto& host) { return std::ranges::count(now_, host.first) == 0; });
    for (const std::string& host : now_) since_.emplace(host, Since{starts_, last_saved_});
    ++starts_;
  } else if (kind == "checkpoint") {
    last_saved_ = body.value("path", "");
    has_saved_ = true;
  } else if (kind == "data_differ") {
    data_differ_ = true;
  }
}

std::vector<std::string> JoinedHosts::joining(const std::vector<std::string>& hosts) const {
  std::vector<std::string> out;
  for (const std::string& host : hosts)
    if (!before_.empty() && !before_.contains(host)) out.push_back(host);
  return out;
}

std::set<std::string> JoinedHosts::needed_checkpoints() const {
  std::set<std::string> out;
  for (const auto& [host, since] : since_)
    if (since.start > 0 && !since.checkpoint.empty()) out.insert(since.checkpoint);
  return out;
}

/// A host that has not trained yet starts after all others.
int JoinedHosts::start_of(const std::string& host) const {
  const auto since = since_.find(host);
  return since == since_.end() ? starts_ : since->second.start;
}

std::optional<JoinedHosts::Return> JoinedHosts::before_other_data(const std::string& host) const {
  if (!data_differ_) return std::nullopt;
  const std::string& later = start_of(host) >= start_of(now_[0]) ? host : now_[0];
  if (start_of(later) == 0) return std::nullopt;
  const auto since = since_.find(later);
  if (since == since_.end() || since->second.checkpoint == last_saved_) return Return{later, ""};
  // Without a checkpoint to go back to, the run would have to begin again.
  if (since->second.checkpoint.empty()) return std::nullopt;
  return Return{later, since->second.checkpoint};
}

}  // namespace hgt
