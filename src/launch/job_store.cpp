#include "job_store.h"

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

void JobStore::set(const std::string& key, const std::string& value) {
  put(key, value);
  if (upstream_.set) upstream_.set(key, value);
}

void JobStore::put(const std::string& key, const std::string& value) {
  if (const auto known = values_.find(key); known != values_.end()) {
    if (known->second == value) return;
    throw Error(ErrorKind::kPeer,
                fmt::format("'{}' is in the rendezvous store already, with another value", key));
  }
  if (key.size() + value.size() > max_bytes_ - bytes_)
    throw Error(ErrorKind::kPeer,
                fmt::format("the rendezvous store would hold more than {} bytes", max_bytes_));
  bytes_ += key.size() + value.size();
  values_.emplace(key, value);
  const auto it = waiting_.find(key);
  if (it == waiting_.end()) return;
  const std::vector<Reply> replies = std::move(it->second);
  waiting_.erase(it);
  for (const Reply& reply : replies) reply(value);
}

void JobStore::get(const std::string& key, Reply reply) {
  const auto it = values_.find(key);
  if (it != values_.end()) return reply(it->second);
  std::vector<Reply>& replies = waiting_[key];
  replies.push_back(std::move(reply));
  if (replies.size() == 1 && upstream_.get) upstream_.get(key);
}

}  // namespace hgt
