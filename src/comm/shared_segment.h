#pragma once

#include <cstddef>
#include <string>

#include "hgtrain/base/file.h"

namespace hgt {

/// Memory that the ranks of one machine have in common: a file in /dev/shm, mapped by each. A rank
/// holds a lock on it while it lives, which the kernel takes back however it ends.
class SharedSegment {
 public:
  /// Makes it, all zeros, with room set aside. Error(kPeer) where there is none.
  static SharedSegment create(const std::string& name, std::size_t bytes);
  /// Error(kPeer) where there is none of that name and size: another machine's.
  static SharedSegment open(const std::string& name, std::size_t bytes);
  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&&) = delete;
  ~SharedSegment();

  std::byte* data() const { return data_; }
  /// Nobody can open it any more; it goes with the last rank that has it mapped.
  void remove_name() const;
  /// Takes the lock of `rank`, for good.
  void hold(int rank) const;
  /// Whether another one that opened it has the lock of `rank`.
  bool is_held(int rank) const;

 private:
  SharedSegment(File file, std::size_t bytes);
  File file_;
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

}  // namespace hgt
