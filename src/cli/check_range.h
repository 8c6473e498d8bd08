#pragma once

#include <cstdint>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

/// Error(kConfig) unless min <= value <= max.
inline void check_range(const char* flag, std::int64_t value, std::int64_t min, std::int64_t max,
                        const char* hint = "") {
  if (value < min || value > max)
    throw Error(ErrorKind::kConfig,
                fmt::format("{} {} is not between {} and {}", flag, value, min, max), hint);
}

}  // namespace hgt
