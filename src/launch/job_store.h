#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hgt {

/// The rendezvous store of one attempt: the coordinator's, or an agent's copy of what its workers
/// have set or asked for. A key is written once, so a copy is never out of date. On the loop's
/// thread only.
class JobStore {
 public:
  using Reply = std::function<void(const std::string& value)>;
  /// For a copy: how it passes its workers' calls on to the coordinator.
  struct Upstream {
    std::function<void(const std::string& key, const std::string& value)> set;
    std::function<void(const std::string& key)> get;  ///< once for each key that is not there
  };

  static constexpr std::size_t kMaxBytes = std::size_t{256} << 20;
  explicit JobStore(std::size_t max_bytes = kMaxBytes, Upstream upstream = {})
      : max_bytes_(max_bytes), upstream_(std::move(upstream)) {}

  /// Error(kPeer) if all keys and values would take more than `max_bytes`, or if the key has
  /// another value already.
  void set(const std::string& key, const std::string& value);
  /// The same for what comes from upstream.
  void put(const std::string& key, const std::string& value);
  /// Calls `reply` now if the key is there, otherwise when it is set.
  void get(const std::string& key, Reply reply);

 private:
  const std::size_t max_bytes_;
  const Upstream upstream_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<Reply>> waiting_;
  std::size_t bytes_ = 0;
};

}  // namespace hgt
