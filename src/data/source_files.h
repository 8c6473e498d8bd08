#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hgt {

/// A file that text is read from.
struct SourceFile {
  std::string path;
  std::int64_t bytes = 0;    ///< on the disk
  bool json_lines = false;   ///< by its name (kind_of_name)
  bool from_folder = false;  ///< found by searching, not named: skipped if it is binary
};

struct SourceFiles {
  std::vector<SourceFile> files;
  std::int64_t hidden = 0;         ///< skipped
  std::vector<std::string> other;  ///< skipped: their names say that they hold no text
};

/// The named files, and those in and below named folders, in byte order of their names. Paths that
/// begin with `except` (the output's prefix and a dot) are left out. Error(kConfig) if nothing is
/// left or a file is named that holds no text, Error(kData) if an input cannot be read.
SourceFiles find_sources(const std::vector<std::string>& inputs, const std::string& except);

}  // namespace hgt
