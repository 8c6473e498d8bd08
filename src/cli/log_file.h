#pragma once

#include <cstdint>
#include <string>

#include "hgtrain/base/file.h"

namespace hgt {

/// A rank's log, which may grow while it is read.
class LogFile {
 public:
  /// `prefix` stands before each line.
  LogFile(const std::string& path, std::string prefix);

  /// Moves to the begin of the last `count` lines.
  void skip_to_last(std::int64_t count);
  /// Prints what is there to stdout, byte for byte after the prefixes. Unless `to_the_end`, the
  /// beginning of a line waits for its end, if it is not longer than 64 KiB.
  void print(bool to_the_end);

 private:
  void print_lines(std::string_view text);

  File file_;
  const std::string prefix_;
  std::int64_t at_ = 0;
  std::string line_;         // the beginning of one that is not printed yet
  bool is_in_line_ = false;  // the beginning of one is printed
};

}  // namespace hgt
