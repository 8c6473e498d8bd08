#pragma once

#include <cstddef>

namespace hgt {

/// The command line of this process that `ps` and `pkill -f` see. Make one before a fork, so that
/// the child can set a title of its own.
class ProcessTitle {
 public:
  ProcessTitle();
  /// Async-signal-safe. At most 15 characters count for `pkill` without -f.
  void set(const char* title) const noexcept;

 private:
  char* begin_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace hgt
