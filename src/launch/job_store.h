#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace hgt {

/// The agent's end of the rendezvous store: keys of one attempt. On the loop's thread only.
class JobStore {
 public:
  using Reply = std::function<void(const std::string& value)>;

  explicit JobStore(std::size_t max_bytes = std::size_t{256} << 20) : max_bytes_(max_bytes) {}

  /// Error(kPeer) if all that was ever set would take more than `max_bytes`.
  void set(const std::string& key, const std::string& value);
  /// Calls `reply` now if the key is there, otherwise when it is set.
  void get(const std::string& key, Reply reply);

 private:
  const std::size_t max_bytes_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<Reply>> waiting_;
  std::size_t bytes_ = 0;
};

}  // namespace hgt
