#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "hgtrain/base/error.h"
#include "hgtrain/comm/connect.h"

namespace hgt {

/// One store in memory that the ranks of a test share, all of them threads of one process.
class MemoryChannel final : public ControlChannel {
 public:
  Progress& progress() override { return progress_; }
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, timeout, [&] { return values_.count(key) > 0; }))
      throw Error(ErrorKind::kPeer, "no key " + key);
    return values_[key];
  }
  void send(const std::string&, const nlohmann::json&) override {}
  void flush() override {}

 private:
  Progress progress_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

/// Runs `body` as each of `size` ranks at once. The error message of each, "" where there was none.
inline std::vector<std::string> run_ranks(
    int size, const std::function<void(Communicator&)>& body,
    std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
  MemoryChannel channel;
  std::vector<std::string> errors(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        const auto communicator =
            connect_gloo(channel, {.rank = rank, .size = size, .timeout = timeout});
        try {
          body(*communicator);
        } catch (...) {
          communicator->abort();
          throw;
        }
      } catch (const Error& e) {
        errors[rank] = e.render();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace hgt
