#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace hgt {

/// Nanoseconds of a clock of Linux. For durations only.
inline std::int64_t clock_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// By a clock that never goes back, and that also counts the time for which this machine is
/// suspended: other machines go on meanwhile.
inline std::int64_t now_ns() {
  return clock_ns(CLOCK_BOOTTIME);
}

/// By a clock that never goes back, and stands still while this machine is suspended. For how long
/// somebody has not answered who may be suspended, too.
inline std::int64_t awake_ns() {
  return clock_ns(CLOCK_MONOTONIC);
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
