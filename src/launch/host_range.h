#pragma once

#include <string>
#include <vector>

#include "hgtrain/base/error.h"

namespace hgt {

inline constexpr int kMaxHosts = 4096;

/// The error for something wrong with the hosts that the user names.
inline Error refused(const std::string& message, const std::string& hint = "") {
  return {ErrorKind::kConfig, message, hint};
}

/// Splits the text at each `separator` outside brackets, and removes spaces around the words.
std::vector<std::string> split_outside_brackets(const std::string& text, char separator);

/// "n[01-03,7]-ib" becomes n01-ib, n02-ib, n03-ib, n7-ib; a number is as wide as the first of its
/// range. Brackets with a colon in them are an IPv6 address, and stay. Error(kConfig) names a
/// malformed range, or one of more than kMaxHosts.
std::vector<std::string> expand_names(const std::string& text);

/// "0-2,5,GPU-1a" becomes 0, 1, 2, 5, GPU-1a: numbers or UUIDs of devices. Error(kConfig) names
/// what is neither.
std::vector<std::string> device_list(const std::string& text);

/// "0-2,5" becomes 0, 1, 2, 5. Error(kConfig) names what is neither a number nor a range.
std::vector<int> number_list(const std::string& text);

}  // namespace hgt
