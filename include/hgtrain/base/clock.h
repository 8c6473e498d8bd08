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

/// Nanoseconds from 1970 to the zero of now_ns(), by the clock of this machine as it is set now.
inline std::int64_t clock_zero_ns() {
  const auto unix = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(unix).count() - now_ns();
}

/// Milliseconds since `start_ns`.
inline double ms_since(std::int64_t start_ns) {
  return static_cast<double>(now_ns() - start_ns) * 1e-6;
}

}  // namespace hgt
