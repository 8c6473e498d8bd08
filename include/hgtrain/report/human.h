#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace hgt {

/// Formats of numbers for people. None depends on the locale, and all fit a column.

/// "2.4137" with four decimals; "3.25e+08" if that would be many digits; "nan".
std::string human_number(double value, int decimals);

/// "1 step", "2 steps".
std::string human_plural(std::int64_t count, const std::string& noun);

/// "999", "12.3k", "1.24M", "3.10G": three significant digits, powers of 1000; "1.00e+21" beyond
/// those that have a letter, "-" if it is not finite.
std::string human_count(double value);

/// The same with a unit: "12.3 kB/s", "724 TFLOP/s".
std::string human_rate(double value, const std::string& unit);

/// "512 B", "1.5 KiB", "512 MiB", "11.3 GiB": powers of 1024.
std::string human_bytes(std::int64_t bytes);

/// Two amounts, with more digits if they differ and would read alike: {"79.93 GiB", "79.91 GiB"}.
std::pair<std::string, std::string> human_bytes(std::int64_t bytes, std::int64_t others);

/// "0:07", "1:32", "2:03:04", "3d 02:03:04"; "-" if it is negative or not finite.
std::string human_duration(double seconds);

}  // namespace hgt
