#pragma once

#include <atomic>
#include <csignal>
#include <thread>

namespace hgt {

/// Turns SIGTERM, SIGINT and SIGUSR1 into a flag for as long as it lives. They are blocked in every
/// thread and waited for by one of its own: no handler ever runs on a thread that computes, because
/// oneDNN's sgemm keeps its stack in a buffer on the heap, and a signal's frame would be written
/// over what lies below. Make it before any other thread, which inherits what is blocked.
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
