#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hgt {

/// A file that text is read from.
struct SourceFile {
  std::string path;
  std::int64_t bytes = 0;    ///< on the disk
  bool json_lines = false;   ///< .jsonl or .ndjson, perhaps compressed
  bool from_folder = false;  ///< found by searching, not named: passed over where it is binary
};

struct SourceFiles {
  std::vector<SourceFile> files;
  std::int64_t hidden = 0;  ///< passed over
};

/// Files as named, and those in named folders and below, in byte order of their names. What begins
/// with `except` (the output's prefix and a dot) is left out. Error(kConfig) where nothing is left,
/// Error(kData) where an input cannot be read.
SourceFiles find_sources(const std::vector<std::string>& inputs, const std::string& except);

}  // namespace hgt
