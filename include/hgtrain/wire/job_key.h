#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace hgt {

/// 32 random bytes that only the processes of one job know: a stream that cannot present them does
/// not belong to the job. The key is passed in the environment (HGTRAIN_JOB_KEY, hex), never in
/// arguments or logs.
class JobKey {
 public:
  /// All zero; matches nothing, not even itself.
  JobKey() = default;
  /// A new key, from the kernel's random numbers.
  static JobKey random();
  /// Reads 64 hex digits; all zero if `hex` is anything else.
  static JobKey parse(std::string_view hex);
  std::string hex() const;

  /// Compares in constant time, so that the duration reveals nothing to an attacker.
  bool matches(const JobKey& other) const noexcept;

 private:
  std::array<std::uint8_t, 32> bytes_{};
};

}  // namespace hgt
