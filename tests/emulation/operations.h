#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "hgtrain/base/error.h"

/// Collectives, the only work that may not be done when its call returns, because it waits for
/// other ranks. A thread of their group does them (comm.cpp). Whatever comes after one of them, by
/// a stream or an event, waits for it when it is launched.
namespace hgt::emulation {

/// What work does to memory.
struct Access {
  const void* memory;
  std::size_t bytes;
  bool writes;
};

class Operation;
using Operations = std::vector<std::shared_ptr<Operation>>;

class Operation {
 public:
  /// `after`: what its stream waits for.
  Operation(std::vector<Access> accesses, Operations after);
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // For who does it.
  /// Waits until all that it comes after is done. Throws if one of these failed, or this one.
  void wait_for_its_turn();
  void finish();
  /// It never gets done: on a device it hangs until it is given up. The first failure counts.
  void fail(const Error& why);
  /// Nobody touches its memory any more. Streams continue without it, as after ncclCommAbort.
  void give_up();

 private:
  enum class State { kQueued, kDone, kFailed, kGivenUp };
  bool is_over() const { return state_ == State::kDone || state_ == State::kGivenUp; }
  bool is_pending_of(std::thread::id thread) const { return thread_ == thread && !is_over(); }
  void set(State state);
  friend bool are_over(const Operations&);
  friend void wait_until_over(const Operations&);
  friend void wait_until_done(const Operations&);
  friend void wait_for_uses(const void*, std::size_t);
  friend bool are_over_of_this_thread();
  friend void wait_until_over_of_this_thread();

  const std::vector<Access> accesses_;
  const std::thread::id thread_ = std::this_thread::get_id();  ///< that queued it
  Operations after_;
  State state_ = State::kQueued;
  std::optional<Error> failure_;
};

/// Whether all are done or given up.
bool are_over(const Operations& operations);
void wait_until_over(const Operations& operations);
/// For work that comes after them. Throws the failure of one that will not be done.
void wait_until_done(const Operations& operations);
/// The same for all that this thread has queued. In tests, a thread may be a rank, which is a
/// process of its own on a real device.
bool are_over_of_this_thread();
void wait_until_over_of_this_thread();
/// Waits until no operation uses the memory, as cudaFree does.
void wait_for_uses(const void* memory, std::size_t bytes);

}  // namespace hgt::emulation
