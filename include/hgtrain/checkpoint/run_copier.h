#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "hgtrain/checkpoint/run_copy.h"

namespace hgt {

/// Updates a copy after each save, on a thread of its own: no save waits for a disk that is slow or
/// stands still.
class RunCopier {
 public:
  /// `notice` gets lines for the user, on any thread, while this object lives; it must not block.
  RunCopier(RunCopy copy, std::function<void(const std::string& text)> notice);
  /// Does not wait: an update that is under way ends with the process, at the latest.
  ~RunCopier();
  RunCopier(const RunCopier&) = delete;
  RunCopier& operator=(const RunCopier&) = delete;

  /// The run has saved a checkpoint: starts an update, after the one that is under way if any.
  void saved();
  /// Waits until the copy has all that was saved; `progress` grows meanwhile. Returns why it does
  /// not have it, "" if it has: the last update failed, or made no progress for `patience`.
  std::string finish(std::chrono::milliseconds patience, std::atomic<std::uint64_t>& progress);

  /// Whether the run should keep the checkpoint of this step, because it is being copied.
  bool is_copying(std::int64_t step) const;

 private:
  struct State;
  static void run(State& state);

  std::shared_ptr<State> state_;
};

}  // namespace hgt
