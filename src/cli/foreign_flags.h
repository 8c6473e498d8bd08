#pragma once

#include <string>
#include <string_view>

namespace hgt {

/// A hint that says what to type instead of a flag that other launchers and trainers have, but
/// `command` does not ("--nproc_per_node", "--lr"); "" if the flag is unknown. `flag` has
/// underscores.
std::string hint_for_flag(std::string_view command, std::string_view flag);

/// A hint about a value that a flag has in other launchers: `--nproc_per_node gpu`; "" if there is
/// none.
std::string hint_for_value(std::string_view flag, std::string_view value);

/// How to start a script, if `word` is the name of one ("train.py"); "" if it is not.
std::string hint_for_script(const std::string& word);

/// What to type instead of a word without its flag: `hgtrain data prepare books/`.
std::string hint_for_word(std::string_view command, const std::string& word);

}  // namespace hgt
