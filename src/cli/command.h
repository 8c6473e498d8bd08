#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hgt {

class Options;

/// One command of the program: `hgtrain NAME ...`, in a file of its own next to its help page.
class Command {
 public:
  virtual ~Command() = default;
  /// The name as the user types it; two words for a command of a group ("data prepare").
  virtual std::string_view name() const = 0;
  /// One line for the overview.
  virtual std::string_view summary() const = 0;
  /// Adds the flags, spelled with underscores ("--num_gpus"); the user may type hyphens as well.
  virtual void add_options(Options& options) = 0;
  /// What run() gets as `rest`: nothing, the `--a.b.c VALUE` pairs, or the words after `--`.
  enum class Rest { kNone, kOverrides, kProgram };
  virtual Rest rest() const { return Rest::kNone; }
  /// Returns the exit status; throws Error.
  virtual int run(const std::vector<std::string>& rest) = 0;
};

using Commands = std::vector<std::unique_ptr<Command>>;

/// Every command, in the order of the overview.
Commands all_commands();

/// The help page src/cli/NAME.md of a command, spaces in its name as '_' ("data_prepare").
std::string_view help_page(std::string_view name);

/// "data prepare" -> {"data", "prepare"}; the second is "" for a command of one word.
std::pair<std::string, std::string> words_of(std::string_view name);

/// The flags of a command, without its `--a.b.c VALUE` pairs: {"--json", "--log_level"}.
std::vector<std::string> flag_names(Command& command);

/// Parses and runs one command line (without the program's name), and prints help if it asks for
/// that. Wrong usage is an Error(kConfig) with the nearest right spelling.
int run_command_line(std::vector<std::string> args, const Commands& commands);

/// configs/NAME.json, which is part of the program (embed_pages.py); "" if there is no such preset.
std::string_view preset(std::string_view name);
std::vector<std::string> preset_names();

}  // namespace hgt
