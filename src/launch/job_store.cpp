#include "job_store.h"

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

void JobStore::set(const std::string& key, const std::string& value) {
  if (key.size() + value.size() > max_bytes_ - bytes_)
    throw Error(ErrorKind::kPeer,
                fmt::format("the rendezvous store would hold more than {} bytes", max_bytes_));
  bytes_ += key.size() + value.size();
  values_[key] = value;
  const auto it = waiting_.find(key);
  if (it == waiting_.end()) return;
  const std::vector<Reply> replies = std::move(it->second);
  waiting_.erase(it);
  for (const Reply& reply : replies) reply(value);
}

void JobStore::get(const std::string& key, Reply reply) {
  const auto it = values_.find(key);
  if (it != values_.end()) return reply(it->second);
  waiting_[key].push_back(std::move(reply));
}

}  // namespace hgt
