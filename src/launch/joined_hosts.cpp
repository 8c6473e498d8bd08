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
    const bool is_first = !std::exchange(has_begun_, true);
    std::erase_if(since_,
                  [&](const auto& host) { return std::ranges::count(now_, host.first) == 0; });
    for (const std::string& host : now_)
      since_.emplace(host, is_first ? std::nullopt : std::optional(last_saved_));
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

std::optional<std::string> JoinedHosts::before_other_data(const std::string& host) const {
  if (!data_differ_ || !has_begun_) return std::nullopt;
  const auto since = since_.find(host);
  if (since == since_.end()) return "";  // it has not trained
  if (!since->second) return std::nullopt;
  if (*since->second == last_saved_) return "";
  // Without a checkpoint to go back to, the run would have to begin again.
  return since->second->empty() ? std::nullopt : since->second;
}

}  // namespace hgt
