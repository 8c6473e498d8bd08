#include "hgtrain/checkpoint/run_copier.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/exception.h"
#include "hgtrain/base/trace.h"

namespace hgt {

/// What the thread and the copier share: the thread may outlive the copier.
struct RunCopier::State {
  RunCopy copy;
  const std::function<void(const std::string& text)> notice;
  CopyProgress progress{};
  std::mutex mutex{};  ///< guards what follows
  std::condition_variable changed{};
  bool wanted = false, updates = false, ended = false;
  bool is_late = false;      ///< something was saved before the copy had all, and this was said
  std::string problem = "";  ///< of the last update
};

RunCopier::RunCopier(RunCopy copy, std::function<void(const std::string& text)> notice)
    : state_(new State{.copy = std::move(copy), .notice = std::move(notice)}) {
  std::thread([state = state_] {
    name_thread("copy");
    run(*state);
  }).detach();
}

RunCopier::~RunCopier() {
  const std::lock_guard lock(state_->mutex);
  state_->ended = true;
  state_->changed.notify_all();
}

void RunCopier::run(State& state) {
  std::unique_lock lock(state.mutex);
  for (;;) {
    state.changed.wait(lock, [&] { return state.wanted || state.ended; });
    if (state.ended) return;
    state.wanted = false;
    state.updates = true;
    lock.unlock();
    std::string problem;
    try {
      state.copy.update(state.progress);
    } catch (const Error& e) {
      problem = message_in_context(e);
    }
    lock.lock();
    state.updates = false;
    state.is_late &= state.wanted;
    state.problem = problem;
    if (!problem.empty() && !state.ended)
      state.notice(fmt::format("{} lacks what was saved last, until the next save: {}",
                               state.copy.folder(), problem));
    state.changed.notify_all();
  }
}

void RunCopier::saved() {
  const std::lock_guard lock(state_->mutex);
  state_->wanted = true;
  if (state_->updates && !std::exchange(state_->is_late, true))
    state_->notice(
        fmt::format("{} is not complete yet: the previous checkpoint is still being copied there",
                    state_->copy.folder()));
  state_->changed.notify_all();
}

bool RunCopier::is_copying(std::int64_t step) const {
  return state_->progress.step == step;
}

std::string RunCopier::finish(std::chrono::milliseconds patience,
                              std::atomic<std::uint64_t>& progress) {
  constexpr std::chrono::milliseconds kLook{100};
  std::unique_lock lock(state_->mutex);
  std::uint64_t before = state_->progress.work;
  std::int64_t since = awake_ns();
  while (
      !state_->changed.wait_for(lock, kLook, [&] { return !state_->wanted && !state_->updates; })) {
    if (const std::uint64_t now = state_->progress.work; now != std::exchange(before, now)) {
      since = awake_ns();
      ++progress;
    } else if (awake_ns() - since > std::chrono::nanoseconds(patience).count()) {
      return fmt::format("the disk has stood still for {} s", patience.count() / 1000);
    }
  }
  return state_->problem;
}

}  // namespace hgt
