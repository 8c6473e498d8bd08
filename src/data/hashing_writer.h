#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hgtrain/base/file.h"
#include "hgtrain/base/xxh3.h"

namespace hgt {

/// Writes to a file through a buffer and hashes (XXH3, 64 bits) what it wrote. The file must
/// outlive it.
class HashingWriter {
 public:
  explicit HashingWriter(File& file);
  void write(std::span<const std::byte> bytes);
  /// A number in little-endian order.
  template <class T>
  void put(T value) {
    write(std::as_bytes(std::span(&value, 1)));
  }
  /// Writes what is left in the buffer. Returns the hash of everything written.
  std::uint64_t finish();

 private:
  void flush();
  File& file_;
  std::vector<std::byte> buffer_;
  Xxh3 hash_;
};

}  // namespace hgt
