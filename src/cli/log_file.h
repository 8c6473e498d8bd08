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

  /// Moves to the beginning of the last `count` lines.
  void skip_to_last(std::int64_t count);
  /// Prints what has been written since the last call to stdout, unchanged except for the prefixes.
  /// Unless `to_the_end`, a line without an end waits for it, up to 64 KiB.
  void print(bool to_the_end);

 private:
  void print_lines(std::string_view text);

  File file_;
  const std::string prefix_;
  std::int64_t at_ = 0;
  std::string line_;         // a line's beginning that is not printed yet
  bool is_in_line_ = false;  // a line's beginning is printed
};

}  // namespace hgt
