#include "operations.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <utility>

namespace hgt::emulation {
namespace {

std::mutex g_mutex;  ///< guards what follows, and the state of all operations
std::condition_variable g_changed;
std::set<const Operation*> g_operations;  ///< all that there are

}  // namespace

Operation::Operation(std::vector<Access> accesses, Operations after)
    : accesses_(std::move(accesses)), after_(std::move(after)) {
  const std::lock_guard lock(g_mutex);
  g_operations.insert(this);
}

Operation::~Operation() {
  const std::lock_guard lock(g_mutex);
  g_operations.erase(this);
}

void Operation::wait_for_its_turn() {
  std::unique_lock lock(g_mutex);
  g_changed.wait(lock, [&] {
    return state_ != State::kQueued ||
           std::ranges::all_of(after_, [](const auto& x) { return x->state_ != State::kQueued; });
  });
  if (failure_) throw Error(*failure_);
  for (const auto& other : after_)
    if (other->failure_) throw Error(*other->failure_);
}

/// What it came after is not needed any more: otherwise each would keep all that were before.
void Operation::set(State state) {
  Operations after;
  const std::lock_guard lock(g_mutex);
  state_ = state;
  after.swap(after_);
  g_changed.notify_all();
}

void Operation::finish() {
  set(State::kDone);
}

void Operation::fail(const Error& why) {
  const std::lock_guard lock(g_mutex);
  if (failure_) return;
  failure_ = why;
  state_ = State::kFailed;
  g_changed.notify_all();
}

void Operation::give_up() {
  set(State::kGivenUp);
}

bool are_over(const Operations& operations) {
  const std::lock_guard lock(g_mutex);
  return std::ranges::all_of(operations, [](const auto& x) { return x->is_over(); });
}

void wait_until_over(const Operations& operations) {
  std::unique_lock lock(g_mutex);
  g_changed.wait(lock, [&] {
    return std::ranges::all_of(operations, [](const auto& x) { return x->is_over(); });
  });
}

void wait_until_done(const Operations& operations) {
  std::unique_lock lock(g_mutex);
  for (const auto& one : operations) {
    g_changed.wait(lock, [&] { return one->state_ != Operation::State::kQueued; });
    if (one->failure_) throw Error(*one->failure_);
  }
}

bool are_over_of_this_thread() {
  const std::lock_guard lock(g_mutex);
  return std::ranges::none_of(g_operations, [](const Operation* x) {
    return x->is_pending_of(std::this_thread::get_id());
  });
}

void wait_until_over_of_this_thread() {
  std::unique_lock lock(g_mutex);
  g_changed.wait(lock, [thread = std::this_thread::get_id()] {
    return std::ranges::none_of(g_operations,
                                [&](const Operation* x) { return x->is_pending_of(thread); });
  });
}

void wait_for_uses(const void* memory, std::size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(memory);
  const auto uses = [&](const Access& access) {
    const auto* const other = static_cast<const std::byte*>(access.memory);
    return other < begin + bytes && begin < other + access.bytes;
  };
  std::unique_lock lock(g_mutex);
  g_changed.wait(lock, [&] {
    return std::ranges::none_of(g_operations, [&](const Operation* x) {
      return !x->is_over() && std::ranges::any_of(x->accesses_, uses);
    });
  });
}

}  // namespace hgt::emulation
