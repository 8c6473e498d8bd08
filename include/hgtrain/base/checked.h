#pragma once

#include <cstdint>
#include <limits>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

/// Returns a * b. Throws Error(kind), which names `what`, if it does not fit.
inline std::int64_t checked_mul(std::int64_t a, std::int64_t b, const char* what,
                                ErrorKind kind = ErrorKind::kData) {
  std::int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out))
    throw Error(kind, fmt::format("{} overflows: {} * {}", what, a, b));
  return out;
}

/// Returns a + b. Throws Error(kind), which names `what`, if it does not fit.
inline std::int64_t checked_add(std::int64_t a, std::int64_t b, const char* what,
                                ErrorKind kind = ErrorKind::kData) {
  std::int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out))
    throw Error(kind, fmt::format("{} overflows: {} + {}", what, a, b));
  return out;
}

/// Returns `value` as To. Throws Error(kind), which names `what`, if it does not fit.
template <class To, class From>
To checked_cast(From value, const char* what, ErrorKind kind = ErrorKind::kData) {
  const To out = static_cast<To>(value);
  if (static_cast<From>(out) != value || ((out < To{}) != (value < From{})))
    throw Error(kind,
                fmt::format("{} = {} does not fit into {} bits", what, value, 8 * sizeof(To)));
  return out;
}

}  // namespace hgt
