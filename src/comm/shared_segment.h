#pragma once

#include <cstddef>
#include <string>

#include "hgtrain/base/file.h"

namespace hgt {

/// Memory that the ranks of one machine share; each maps it. It has no name in any file system
/// (memfd_create), so nothing of it remains once the ranks have ended in whatever way, and the size
/// of /dev/shm does not limit it. A rank holds a lock on it while it lives; the kernel releases the
/// lock when the rank ends.
class SharedSegment {
 public:
  /// Makes a segment of zeros and reserves its memory. Error(kPeer) if that would be more than half
  /// of the machine's memory, or if it cannot be had.
  static SharedSegment create(std::size_t bytes);
  /// Opens the segment that another process of this user on this machine has made, and still has
  /// open. Error(kPeer) if there is none with that name and size, because it belongs to another
  /// machine.
  static SharedSegment open(const std::string& name, std::size_t bytes);
  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&&) = delete;
  ~SharedSegment();

  std::byte* data() const { return data_; }
  /// The name to pass to open(); only for a segment from create().
  const std::string& name() const { return name_; }
  /// Takes the lock of `rank`, until this process ends.
  void hold(int rank) const;
  /// Whether another process that has opened the segment holds the lock of `rank`.
  bool is_held(int rank) const;

 private:
  SharedSegment(std::string name, File file, std::size_t bytes);
  std::string name_;
  File file_;
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

}  // namespace hgt
