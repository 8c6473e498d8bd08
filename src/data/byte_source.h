#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace hgt {

/// The bytes of a file as a stream, decompressed if its name ends in .gz or .zst.
class ByteSource {
 public:
  static std::unique_ptr<ByteSource> open(const std::string& path);
  virtual ~ByteSource() = default;
  /// Fills `buffer`; returns fewer bytes only at the end. If the compressed file is damaged or ends
  /// too early, Error(kData) says at which byte of it.
  virtual std::size_t read(std::span<char> buffer) = 0;
  /// Bytes taken from the disk so far.
  virtual std::int64_t bytes_taken() const = 0;
};

/// `name` without .gz or .zst at its end.
std::string_view without_compression(std::string_view name);

}  // namespace hgt
