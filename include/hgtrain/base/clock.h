#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace hgt {

/// Nanoseconds of a clock that never goes back, and that also counts the time for which the machine
/// is suspended (steady_clock does not). For durations only.
inline std::int64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
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
