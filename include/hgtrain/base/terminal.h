#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace hgt {

/// `text` as a terminal may be given it, wherever it comes from (a file, a key, a worker): what a
/// terminal would take for a command, or would show in another order than it stands, is written out
/// instead: control characters but '\n' and '\t' as \u001b, also those of Unicode (C1, line
/// separators, directions), bytes that are not UTF-8 as \xff. JSON means the same as before.
std::string printable(std::string_view text);

void print_out(std::string_view text);
void print_error(std::string_view text);

/// Prints printable() text to standard output. A failure is left on `stdout`, for main to report.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  print_out(fmt::format(format, std::forward<Args>(args)...));
}

/// Prints printable() text to std::cerr, for the person who watches. Never throws: that nobody can
/// be told is no reason to end.
template <class... Args>
void tell(fmt::format_string<Args...> format, Args&&... args) {
  print_error(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace hgt
