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

  /// Error(kPeer) where the values of a job would take more than kMaxBytes.
  void set(const std::string& key, const std::string& value);
  /// Calls `reply` now where the key is there, else when it is set.
  void get(const std::string& key, Reply reply);

  static constexpr std::size_t kMaxBytes = std::size_t{256} << 20;

 private:
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<Reply>> waiting_;
  std::size_t bytes_ = 0;
};

}  // namespace hgt
