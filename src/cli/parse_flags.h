#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hgtrain/base/error.h"

#include "command.h"

namespace CLI {
class App;
}

namespace hgt {

/// The command of a line that begins with a flag.
inline constexpr std::string_view kDefaultCommand = "train";

/// Error(kConfig).
Error usage(std::string message, std::string hint);

/// The flags of `app` that help lists: {"--json", "--log_level"}.
std::vector<std::string> flag_names(const CLI::App& app);

/// Sets what the flags and arguments of `command` fill. Error(kConfig), in place of CLI11's errors,
/// says what is wrong and, if that is known, what to type instead.
void parse_flags(CLI::App& app, const Command& command, const std::vector<std::string>& args,
                 const Commands& commands);

}  // namespace hgt
