#include "hgtrain/wire/store.h"

#include <condition_variable>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

struct MemoryStore::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;
  std::string end_reason;
};

MemoryStore::MemoryStore() : state_(std::make_unique<State>()) {}
MemoryStore::~MemoryStore() = default;

void MemoryStore::set(const std::string& key, const std::string& value) {
  const std::lock_guard lock(state_->mutex);
  state_->values[key] = value;
  state_->changed.notify_all();
}

std::string MemoryStore::get(const std::string& key, std::chrono::milliseconds timeout) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(
      lock, timeout, [&] { return state_->values.count(key) > 0 || !state_->end_reason.empty(); });
  if (!state_->end_reason.empty()) throw_store_ended(key, state_->end_reason);
  const auto it = state_->values.find(key);
  if (it == state_->values.end()) throw_store_timeout(key, timeout);
  return it->second;
}

void MemoryStore::end(const std::string& reason) {
  const std::lock_guard lock(state_->mutex);
  state_->end_reason = reason;
  state_->changed.notify_all();
}

void throw_store_timeout(const std::string& key, std::chrono::milliseconds timeout) {
  throw Error(ErrorKind::kPeer,
              fmt::format("no rank set '{}' in the rendezvous store within {:.1f} s", key,
                          static_cast<double>(timeout.count()) / 1000.0),
              "another rank has not reached this point: see its log");
}

void throw_store_ended(const std::string& key, const std::string& reason) {
  throw Error(ErrorKind::kPeer,
              fmt::format("the job ended while a rank waited for '{}' in the rendezvous store: {}",
                          key, reason));
}

}  // namespace hgt
