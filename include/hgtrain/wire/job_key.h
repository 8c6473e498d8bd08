#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace hgt {

/// 32 random bytes that every worker of one job knows and nobody else: a stream that cannot show
/// them is not of the job. Travels in the environment (HGTRAIN_JOB_KEY, hex), never in arguments
/// or logs.
class JobKey {
 public:
  /// All zero; matches nothing, not even itself.
  JobKey() = default;
  /// From the kernel's random numbers.
  static JobKey random();
  /// From 64 hex digits; all zero where `text` is anything else.
  static JobKey parse(std::string_view hex);
  std::string hex() const;

  /// In constant time, so that a guesser learns nothing from how long a refusal takes.
  bool matches(const JobKey& other) const noexcept;

 private:
  std::array<std::uint8_t, 32> bytes_{};
};

}  // namespace hgt
