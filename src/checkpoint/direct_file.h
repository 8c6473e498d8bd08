#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "hgtrain/base/file.h"

namespace hgt {

/// An open file that is read and written past the page cache (O_DIRECT), if the file system can do
/// that: a large file then neither waits for free pages nor takes them from others. Any
/// number of threads may call read_aligned and write_at. Errors are those of File.
class DirectFile {
 public:
  static constexpr std::int64_t kAlignment = 4096;  ///< of reads and writes past the page cache

  /// `flags`: O_RDONLY or O_WRONLY; the file exists. If not `direct`, everything goes through the
  /// page cache.
  DirectFile(const std::string& path, int flags, bool direct = true);
  ~DirectFile();
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;

  std::int64_t size() const { return file_.size(); }
  /// Fills `out` from `offset`; both the offset and the address of `out` are aligned. At the end of
  /// the file, bytes of `out` are left over; Error if there is nothing to read at all.
  void read_aligned(std::int64_t offset, std::span<std::byte> out);
  /// Writes any bytes; those pages that they fill go past the page cache if the address is aligned
  /// as the offset is.
  void write_at(std::int64_t offset, std::span<const std::byte> bytes);
  void sync() { file_.sync(); }
  void close();

 private:
  File file_;
  int direct_fd_ = -1;  ///< -1: there is none
};

}  // namespace hgt
