#pragma once

#include <chrono>
#include <cstdint>

namespace hgt {

/// Nanoseconds of the monotonic clock, for durations only.
inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Milliseconds since `start_ns`.
inline double ms_since(std::int64_t start_ns) {
  return static_cast<double>(now_ns() - start_ns) * 1e-6;
}

}  // namespace hgt
