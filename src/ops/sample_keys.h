#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

/// What the CPU and CUDA sides of `sample` share: the order of tokens, and how much of the
/// distribution each one has.
namespace hgt {

inline constexpr int kIdBits = 24;
inline constexpr int kKeyBits = 32 + kIdBits;

/// A token's key in the order: the likeliest first, of equals the lowest id. It has 32 bits that
/// follow from the logit, then the id. Logits that are NaN or infinity come before all others.
constexpr std::uint64_t sort_key(float logit, std::int64_t id) {
  std::uint32_t above = 0;
  if (logit < INFINITY) {
    const auto bits = std::bit_cast<std::uint32_t>(logit + 0.0f);  // -0 becomes 0
    above = bits >> 31 != 0 ? bits : bits ^ 0x7fffffffu;
  }
  return std::uint64_t{above} << kIdBits | static_cast<std::uint64_t>(id);
}

constexpr std::int32_t token_of(std::uint64_t key) {
  return static_cast<std::int32_t>(key & ((1 << kIdBits) - 1));
}

/// Whether the logit of the first key is finite: then none is NaN or infinity, and not all are
/// minus infinity.
constexpr bool is_finite_distribution(std::uint64_t first) {
  return first >= sort_key(3.40282347e38f, 0) && first < sort_key(-INFINITY, 0);
}

/// The key after the last one with an equal logit.
constexpr std::uint64_t end_of_ties(std::uint64_t key) {
  return ((key >> kIdBits) + 1) << kIdBits;
}

/// 2^40 exp(-distance), for a distance of 0 or more. In integers, so that a device that fuses
/// multiplication and addition gets the same as one that does not.
constexpr std::uint64_t mass_of(float distance) {
  if (!(distance < 28)) return 0;                                             // below 1
  const auto octaves = static_cast<std::uint64_t>(distance * 6196328018.7f);  // 2^32 / ln 2
  const auto part = static_cast<std::uint32_t>(octaves);
  // 2^-part as a power series: ln(2)^k / k!, times 2^31.
  constexpr std::uint32_t kSeries[] = {2147483648, 1488522236, 515882496, 119194166, 20654775,
                                       2863360,    330788,     32755,     2838,      219};
  std::uint32_t power = 0;
  for (int k = 9; k >= 0; --k)
    power = kSeries[k] - static_cast<std::uint32_t>(std::uint64_t{power} * part >> 32);
  return std::uint64_t{power} << 9 >> (octaves >> 32);
}

/// The least integer that is at least the share top_p of `total`.
constexpr std::uint64_t min_mass(double top_p, std::uint64_t total) {
  const double threshold = top_p * static_cast<double>(total);
  if (!(threshold < static_cast<double>(total))) return total;
  const auto whole = static_cast<std::uint64_t>(threshold);
  return whole + (static_cast<double>(whole) < threshold ? 1 : 0);
}

/// The integer in [0, total) for a number in [0, 1).
constexpr std::uint64_t drawn_mass(double uniform, std::uint64_t total) {
  const auto drawn = static_cast<std::uint64_t>(uniform * static_cast<double>(total));
  return drawn < total ? drawn : total - 1;
}

}  // namespace hgt
