#pragma once

#include <string>
#include <string_view>

namespace hgt {

/// What to type in place of a flag that `command` does not have but other launchers and trainers
/// do ("--nproc_per_node", "--lr"), as a hint; "" where nothing is known of it. `flag` has
/// underscores.
std::string hint_for_flag(std::string_view command, std::string_view flag);

/// The same for a word that stands where a flag is needed: `hgtrain data prepare books/`.
std::string hint_for_word(std::string_view command, const std::string& word);

}  // namespace hgt
