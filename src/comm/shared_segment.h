#pragma once

#include <cstddef>
#include <string>

#include "hgtrain/base/file.h"

namespace hgt {

/// Memory that the ranks of one machine have in common, mapped by each. It has no name in any file
/// system (memfd_create), so nothing of it stays once the ranks are gone, however they end, and the
/// size of /dev/shm does not limit it. A rank holds a lock on it while it lives, which the kernel
/// takes back however it ends.
class SharedSegment {
 public:
  /// Makes it, all zeros, with room set aside. Error(kPeer) if there is none: at most half of the
  /// machine's memory.
  static SharedSegment create(std::size_t bytes);
  /// The one that another process of this user on this machine made, and has open still.
  /// Error(kPeer) if there is none of that name and size: it is another machine's.
  static SharedSegment open(const std::string& name, std::size_t bytes);
  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&&) = delete;
  ~SharedSegment();

  std::byte* data() const { return data_; }
  /// What to open it by, of the one that was made.
  const std::string& name() const { return name_; }
  /// Takes the lock of `rank`, for good.
  void hold(int rank) const;
  /// Whether another one that opened it has the lock of `rank`.
  bool is_held(int rank) const;

 private:
  SharedSegment(std::string name, File file, std::size_t bytes);
  std::string name_;
  File file_;
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

}  // namespace hgt
