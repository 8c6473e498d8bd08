#pragma once

#include <cstdint>
#include <string>

namespace hgt {

/// Numbers as people read them. All are locale-free and short enough for a column.

/// "2.4137" with four decimals; "3.25e+08" where that would be many digits, "nan", "inf".
std::string human_number(double value, int decimals);

/// "1 step", "2 steps".
std::string human_plural(std::int64_t count, const std::string& noun);

/// "999", "12.3k", "1.24M", "3.1G": three significant digits, powers of 1000.
std::string human_count(double value);

/// "512 B", "1.5 KiB", "512 MiB", "11.3 GiB": powers of 1024.
std::string human_bytes(std::int64_t bytes);

/// "0:07", "1:32", "2:03:04", "3d 02:03:04"; "-" where it is negative or not finite.
std::string human_duration(double seconds);

}  // namespace hgt
