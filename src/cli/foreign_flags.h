#pragma once

#include <span>
#include <string>
#include <string_view>

namespace hgt {

/// A flag of other launchers that `train` and `launch` accept although it changes nothing.
struct IdleFlag {
  std::string_view name;
  bool has_value;
  std::string_view why;  ///< it has no effect; "" = what it asks for is so in any case
};
std::span<const IdleFlag> idle_flags(std::string_view command);

/// A hint that says what to type instead of a flag that other launchers and trainers have, but
/// `command` does not ("--nproc_per_node", "--lr"); "" if the flag is unknown. `flag` has
/// underscores.
std::string hint_for_flag(std::string_view command, std::string_view flag);

/// A hint about a value of torchrun's --nproc_per_node in another flag: `--num_gpus auto`; "" if
/// there is none.
std::string hint_for_value(std::string_view flag, std::string_view value);

/// What takes the place of another launcher ("torchrun"); "" if `word` is the name of none.
std::string hint_for_launcher(std::string_view word);

/// How to start a script, if `word` is the name of one ("train.py"); "" if it is not.
std::string hint_for_script(const std::string& word);

/// What to type instead of a word without its flag: `hgtrain data prepare books/`.
std::string hint_for_word(std::string_view command, const std::string& word);

}  // namespace hgt
