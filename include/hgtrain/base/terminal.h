#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace hgt {

/// `text` in a form that is safe for a terminal, from any source (a file, a key, a worker). What a
/// terminal would execute as a command, or show in another order, is escaped: control characters
/// except '\n' and '\t' as \u001b, also those of Unicode (C1, line separators, directions), and
/// bytes that are not UTF-8 as \xff. JSON keeps its meaning.
std::string printable(std::string_view text);

void print_out(std::string_view text);
void print_error(std::string_view text);

/// Prints printable() text to standard output. A failure sets the error flag of `stdout`, which
/// main reports.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  print_out(fmt::format(format, std::forward<Args>(args)...));
}

/// Prints printable() text to std::cerr, for the user. Never throws: a message that cannot be
/// printed must not end the program.
template <class... Args>
void tell(fmt::format_string<Args...> format, Args&&... args) {
  print_error(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace hgt
