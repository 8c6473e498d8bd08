#pragma once

#include <cstddef>

namespace hgt {

/// The command line that `ps` and `pkill -f` see of this process. Make one before a fork: the child
/// may then give itself a title of its own.
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
