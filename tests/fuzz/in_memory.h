#pragma once

#include <fcntl.h>
#include <string>
#include <string_view>

#include "hgtrain/base/file.h"

#include "support/temporary_folder.h"

namespace hgt {

/// Replaces a file, without the fsync of write_file_atomically.
inline void put(const std::string& path, std::string_view text) {
  File::open(path, O_WRONLY | O_CREAT | O_TRUNC).write(text);
}

}  // namespace hgt
