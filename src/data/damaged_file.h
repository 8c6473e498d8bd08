#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"

namespace hgt {

inline Error damaged_file(
    const File& file, std::int64_t offset, const std::string& what,
    const std::string& hint = "prepare the data again, or copy the file again") {
  return {ErrorKind::kData, fmt::format("{} is damaged at byte {}: {}", file.path(), offset, what),
          hint};
}

}  // namespace hgt
