#pragma once

#include <future>
#include <vector>

#include "hgtrain/parallel/range.h"

#include "run_writer.h"

namespace hgt {

/// Reads given bytes of a file in large pieces, and reads ahead while the caller works on one.
class RunReader {
 public:
  /// `bytes` are those that will be read, ascending. If not `direct`, they go through the page
  /// cache.
  RunReader(const std::string& path, std::span<const Range> bytes, bool direct);
  ~RunReader();
  /// Fills `out` from `offset`. The calls ask for all of the bytes in order, or for fewer.
  void read(std::int64_t offset, std::span<std::byte> out);

 private:
  void read_ahead();
  void advance();
  DirectFile file_;
  std::vector<Range> pieces_;  ///< whole pages, ascending
  std::size_t started_ = 0;    ///< pieces that are read or being read
  Range current_;              ///< the last piece that was taken
  RunBuffers buffers_;
  std::deque<std::future<void>> reading_;  ///< the pieces after it
};

}  // namespace hgt
