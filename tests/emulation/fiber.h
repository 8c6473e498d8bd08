#pragma once

#include <cstddef>

namespace hgt::emulation {

/// A stack of its own on which code runs until it suspends itself. Fibers are resumed from one
/// place, one at a time.
class Fiber {
 public:
  /// `body` is called by the first resume; it never returns, it suspends.
  explicit Fiber(void (*body)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs it to its next suspend.
  void resume();
  /// Called on the fiber: goes back to the place that resumed it.
  void suspend();

 private:
  static void enter();

  void (*body_)();
  std::byte* memory_;                   ///< the guard page, then the stack
  void* place_ = nullptr;               ///< stack pointer of the fiber while it is suspended
  void* caller_ = nullptr;              ///< of who resumed it
  const void* caller_stack_ = nullptr;  ///< for AddressSanitizer
  std::size_t caller_stack_bytes_ = 0;
};

}  // namespace hgt::emulation
