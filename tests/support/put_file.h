#pragma once

#include <fstream>
#include <string>

#include "hgtrain/base/file.h"

namespace hgt {

/// A file of a pretended system: one line, in folders that are made.
inline void put_file(const std::string& path, const std::string& line) {
  make_folders(parent_folder(path));
  std::ofstream(path) << line << '\n';
}

}  // namespace hgt
