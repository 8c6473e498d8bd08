#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hgt {

/// The word as a user would type it in a shell: quoted if the shell would not take it literally.
std::string shell_word(const std::string& word);
/// The words as a user would type them in a shell.
std::string shell_line(const std::vector<std::string>& words);

/// Runs a line of the shell to its end: the exit status (-1 if it was killed or did not start) and
/// what it printed to stdout.
std::pair<int, std::string> run_shell(const std::string& line);

}  // namespace hgt
