#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "hgtrain/wire/store.h"

namespace hgt {

/// Compares the whole content of the data on a host with that on host 0 while the job trains:
/// before that, only samples of large files are compared. A thread of low priority reads the files
/// once. One rank of each host has such an object; it outlives neither store nor data.
class DataComparison {
 public:
  /// `hash` returns soon if stop is requested. Its result is then not used.
  DataComparison(Store& store, int host, int num_hosts,
                 std::function<std::uint64_t(const std::stop_token&)> hash);

  /// Whether it is known by now that the content differs.
  bool differs() const { return differs_; }
  /// On host 0: whether the data of all hosts are known to be the same.
  bool are_all_same() const { return are_all_same_; }

 private:
  void run(const std::stop_token& stop);
  std::optional<std::string> wait_for(const std::string& key, const std::stop_token& stop);

  Store& store_;
  const int host_, num_hosts_;
  const std::function<std::uint64_t(const std::stop_token&)> hash_;
  std::atomic<bool> differs_ = false, are_all_same_ = false;
  std::jthread thread_;  ///< last: it uses the others
};

}  // namespace hgt
