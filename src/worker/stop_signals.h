#pragma once

#include <atomic>
#include <csignal>
#include <thread>

namespace hgt {

/// Turns SIGTERM, SIGINT and SIGUSR1 into a flag while it lives. All threads block them, and a
/// thread of this object waits for them. So no handler runs on a thread that computes: oneDNN's
/// sgemm keeps its stack in a buffer on the heap, and a signal's frame would overwrite what lies
/// below. Make it before any other thread, because threads inherit the set of blocked signals.
class StopSignals {
 public:
  explicit StopSignals(std::atomic<bool>& stop);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  sigset_t signals_;
  std::atomic<bool> closing_{false};
  std::thread thread_;
};

}  // namespace hgt
