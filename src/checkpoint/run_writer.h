#pragma once

#include <deque>
#include <future>

#include "hgtrain/arch/memory.h"
#include "hgtrain/device/buffer.h"

#include "direct_file.h"

namespace hgt {

/// Buffers aligned for DirectFile. The caller uses one while the others are read or written.
class RunBuffers {
 public:
  static constexpr std::size_t kCount = 4;
  static constexpr std::int64_t kBytes = kCheckpointBufferBytes / kCount;  ///< of each
  RunBuffers();
  /// Buffers are used in turn.
  std::span<std::byte> operator[](std::size_t turn) const;

 private:
  Buffer memory_;
};

/// Writes bytes into an existing file in large pieces. Threads write pieces while the caller fills
/// the next one; their errors are thrown by a later call.
class RunWriter {
 public:
  explicit RunWriter(const std::string& path) : file_(path, O_WRONLY) {}
  ~RunWriter();
  /// Writes at `offset`. Calls whose bytes follow on each other make up one piece.
  void put(std::int64_t offset, std::span<const std::byte> bytes);
  /// Writes what is left, fsyncs and closes.
  void finish();

 private:
  void flush();
  void finish_first();
  std::int64_t begin_ = 0, end_ = 0;  ///< the bytes of the file that are in the current buffer
  RunBuffers buffers_;
  std::size_t turn_ = 0;  ///< of the current buffer
  DirectFile file_;
  std::deque<std::future<void>> writing_;
};

}  // namespace hgt
