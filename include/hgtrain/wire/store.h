#pragma once

#include <chrono>
#include <memory>
#include <string>

namespace hgt {

/// The key-value store through which the ranks of a job find each other. It has only keys of this
/// job and this restart, so there are no stale keys. Every member may be called from any thread.
class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Waits for the key. On a timeout, or if the job is ending, throws Error(kPeer), which names the
  /// key.
  virtual std::string get(const std::string& key, std::chrono::milliseconds timeout) = 0;
};

/// A store within this process: for a worker on its own, and for tests that run ranks as threads.
class MemoryStore : public Store {
 public:
  MemoryStore();
  ~MemoryStore() override;
  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override;
  /// Ends every present and later get with Error(kPeer, `reason`).
  void end(const std::string& reason);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// How a wait on a store fails: every kind of store uses the same words.
[[noreturn]] void throw_store_timeout(const std::string& key, std::chrono::milliseconds timeout);
[[noreturn]] void throw_store_ended(const std::string& key, const std::string& reason);

}  // namespace hgt
