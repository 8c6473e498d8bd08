#include "hgtrain/report/human.h"

#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace hgt {

namespace {

/// Three significant digits, or more, without an exponent: 1.24, 12.4, 124.
std::string three_digits(double value, int more = 0) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, more + (size < 9.995 ? 2 : size < 99.95 ? 1 : 0));
}

/// The digits and the prefix of a multiple of 1000: {"12.3", "k"}. What no prefix makes short has
/// an exponent.
std::pair<std::string, std::string> scaled(double value) {
  constexpr std::string_view kPrefixes = "kMGTPE";
  if (std::abs(value) < 999.5) return {three_digits(value), ""};
  for (const char prefix : kPrefixes) {
    value /= 1000;
    if (std::abs(value) < 999.5) return {three_digits(value), std::string(1, prefix)};
  }
  return {fmt::format("{:.2e}", value * 1e18), ""};
}

std::string bytes_text(std::int64_t bytes, int more_digits) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  const char* unit = "KMGTPE";
  double value = static_cast<double>(bytes) / 1024;
  for (; value >= 999.5 && unit[1] != '\0'; ++unit) value /= 1024;
  return fmt::format("{} {}iB", three_digits(value, more_digits), *unit);
}

}  // namespace

std::string human_number(double value, int decimals) {
  if (std::isnan(value)) return "nan";  // with either sign
  if (std::isinf(value)) return fmt::format("{}", value);
  return std::abs(value) < 1e5 ? fmt::format("{:.{}f}", value, decimals)
                               : fmt::format("{:.2e}", value);
}

std::string human_plural(std::int64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string human_count(double value) {
  if (!std::isfinite(value)) return "-";
  if (std::abs(value) < 999.5 && value == std::floor(value)) return fmt::format("{:.0f}", value);
  const auto [digits, prefix] = scaled(value);
  return digits + prefix;
}

std::string human_rate(double value, const std::string& unit) {
  const auto [digits, prefix] = scaled(value);
  return fmt::format("{} {}{}", digits, prefix, unit);
}

std::string human_bytes(std::int64_t bytes) {
  return bytes_text(bytes, 0);
}

std::pair<std::string, std::string> human_bytes(std::int64_t bytes, std::int64_t others) {
  constexpr int kMostDigits = 15;  // of a double
  for (int more = 0;; ++more) {
    std::pair texts(bytes_text(bytes, more), bytes_text(others, more));
    if (bytes == others || texts.first != texts.second || more == kMostDigits) return texts;
  }
}

std::string human_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e12) return "-";
  const auto total = static_cast<std::int64_t>(std::llround(seconds));
  const std::int64_t days = total / 86400, hours = total / 3600 % 24, minutes = total / 60 % 60;
  const std::int64_t rest = total % 60;
  if (days > 0) return fmt::format("{}d {:02}:{:02}:{:02}", days, hours, minutes, rest);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, rest);
  return fmt::format("{}:{:02}", minutes, rest);
}

}  // namespace hgt
