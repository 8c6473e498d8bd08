#pragma once

#include <cstdint>

#include "hgtrain/base/checked.h"
#include "hgtrain/base/error.h"

namespace hgt {

inline constexpr std::int64_t kFloatBytes = 4;

/// Error(kConfig) on overflow, which only a config's sizes can cause.
inline std::int64_t times(std::int64_t a, std::int64_t b) {
  return checked_mul(a, b, "an activation's size", ErrorKind::kConfig);
}

}  // namespace hgt
