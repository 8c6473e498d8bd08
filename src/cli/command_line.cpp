#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/log.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/base/text.h"
#include "hgtrain/config/schema.h"

#include "command.h"
#include "foreign_flags.h"
#include "options.h"
#include "parse_flags.h"
#include "shell_words.h"
#include "worker_program.h"

namespace hgt {
namespace {

Command* find(const Commands& commands, std::string_view name) {
  for (const auto& command : commands)
    if (command->name() == name) return command.get();
  return nullptr;
}

std::string overview(const Commands& commands, const std::string& group = "") {
  std::string text;
  for (const auto& command : commands)
    if (group.empty() || words_of(command->name()).first == group)
      text += fmt::format("  {:16} {}\n", command->name(), command->summary());
  return text;
}

void print_help(const Commands& commands) {
  say("{}\n{}\n`hgtrain help COMMAND` prints a command's page.\n", help_page("hgtrain"),
      overview(commands));
}

std::string usable_options(const CLI::App& app) {
  std::string text;
  const CLI::Formatter formatter;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) text += formatter.make_option(option, false);
  return text;
}

void print_help(Command& command, const CLI::App& app) {
  say("{}", help_page(command.name()));
  const std::string options = usable_options(app);
  if (!options.empty()) say("\nOptions:\n{}", options);
}

/// `--num-gpus` and `--num_gpus` are the same flag. Only names are touched, never values.
std::string with_underscores(const std::string& arg) {
  if (!arg.starts_with("--")) return arg;
  const std::size_t end = std::min(arg.find('='), arg.size());
  std::string name = arg.substr(0, end);
  std::replace(name.begin() + 2, name.end(), '-', '_');
  return name + arg.substr(end);
}

/// The name of the command that `word` is nearest to: a second word of `group`'s, or, if that is
/// "", any word of a name. "" if none is near.
std::string nearest_command(const std::string& word, const Commands& commands,
                            const std::string& group) {
  std::map<std::string, std::string> names;  // by candidate; a first word comes before a second
  for (const auto& command : commands) {
    const auto [first, second] = words_of(command->name());
    if (!second.empty() && (group.empty() || first == group))
      names.emplace(second, command->name());
    if (group.empty()) names[first] = first;
  }
  std::vector<std::string> candidates;
  for (const auto& [candidate, name] : names) candidates.push_back(candidate);
  const std::string meant = nearest(word, candidates);
  return meant.empty() ? "" : names.at(meant);
}

/// Takes `--log_level LEVEL` off the start of `args`: it may also stand before the command.
std::vector<std::string> take_log_level(std::vector<std::string>& args) {
  const std::string flag = args.empty() ? "" : with_underscores(args[0]);
  const std::ptrdiff_t words = flag == "--log_level" ? 2 : flag.starts_with("--log_level=") ? 1 : 0;
  if (words >= std::ssize(args)) return {};  // there is no command
  std::vector<std::string> taken(args.begin(), args.begin() + words);
  args.erase(args.begin(), args.begin() + words);
  return taken;
}

/// Takes the command's name off `args`. If the line starts with a flag, it is the default command.
Command& choose(std::vector<std::string>& args, const Commands& commands) {
  if (args[0].starts_with('-')) return *find(commands, kDefaultCommand);
  if (args.size() > 1)
    if (Command* command = find(commands, args[0] + " " + args[1])) {
      args.erase(args.begin(), args.begin() + 2);
      return *command;
    }
  if (Command* command = find(commands, args[0])) {
    args.erase(args.begin());
    return *command;
  }
  const std::string of_group = overview(commands, args[0]);
  const bool is_group = !of_group.empty();
  if (is_group && (args.size() == 1 || args[1].starts_with('-')))
    throw usage(fmt::format("{} needs a second word", args[0]), "one of:\n" + of_group);
  if (!is_group && args[0].ends_with(".json"))
    throw usage(fmt::format("{} is not a command", args[0]),
                fmt::format("to train from it: hgtrain --config {}", shell_word(args[0])));
  for (const std::string& hint : {hint_for_launcher(args[0]), hint_for_script(args[0])})
    if (!hint.empty()) throw usage(fmt::format("{} is not a command", args[0]), hint);
  const std::string typed = is_group ? args[0] + " " + args[1] : args[0];
  const std::string meant =
      nearest_command(is_group ? args[1] : args[0], commands, is_group ? args[0] : "");
  throw usage(fmt::format("there is no command '{}'", typed),
              !meant.empty() ? fmt::format("did you mean '{}'?", meant)
              : is_group     ? "one of:\n" + of_group
                             : "hgtrain help lists the commands");
}

/// Whether `arg` is "--name" or "--name=...". "-", "--" and a text that begins with "--" but
/// contains a space are not flags.
bool is_flag(const std::string& arg) {
  return arg.size() > 2 && arg.starts_with("--") && arg.find(' ') == std::string::npos;
}

Error needs_value(const std::string& flag) {
  return usage(fmt::format("{} needs a value", flag),
               is_switch(flag.substr(2))
                   ? fmt::format("type {} true", flag)
                   : fmt::format("type {0} VALUE, or {0}=VALUE if it begins with dashes", flag));
}

/// CLI11 takes the next word as an option's value, even if that word is a flag.
void refuse_missing_values(const CLI::App& app, const std::vector<std::string>& args) {
  for (std::size_t i = 0; i + 1 < args.size(); ++i) {
    const CLI::Option* option = app.get_option_no_throw(args[i]);
    if (option == nullptr || option->get_items_expected_min() == 0) continue;
    if (is_flag(args[++i])) throw needs_value(args[i - 1]);
  }
}

/// True for a key outside any section, and for a section that is given as a whole or taken away.
bool is_whole_key(const std::string& name, const std::string& value) {
  return is_toplevel_key(name) || (is_section(name) && (value == "null" || value.starts_with('{')));
}

/// Moves `--a.b.c VALUE` pairs (also `--a.b.c=VALUE`, and keys for which is_whole_key() is true)
/// out of `args`, as alternating key and value. The command's own flags stay.
std::vector<std::string> take_overrides(std::vector<std::string>& args,
                                        const std::vector<std::string>& flags) {
  std::vector<std::string> rest, kept;
  std::set<std::string> given;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    const std::size_t equals = std::min(arg.find('='), arg.size());
    const std::string name = arg.substr(0, equals);
    const std::string value = equals < arg.size()   ? arg.substr(equals + 1)
                              : i + 1 < args.size() ? args[i + 1]
                                                    : "";
    const bool is_key = name.find('.') != std::string::npos ||
                        (std::find(flags.begin(), flags.end(), name) == flags.end() &&
                         name.size() > 2 && is_whole_key(name.substr(2), value));
    if (!arg.starts_with("--") || !is_key) {
      kept.push_back(arg);
      continue;
    }
    if (const std::string key = arg.substr(2, equals - 2); given.insert(key).second)
      rest.push_back(key);
    else
      throw usage(fmt::format("{} is given twice", name), "keep one of them");
    if (equals < arg.size()) {
      rest.push_back(arg.substr(equals + 1));
      continue;
    }
    if (i + 1 == args.size() || is_flag(args[i + 1])) throw needs_value(arg);
    rest.push_back(args[++i]);
    if (i + 1 < args.size() && !args[i + 1].starts_with('-') && !args[i + 1].ends_with(".json"))
      throw usage(fmt::format("{} takes one value, but '{}' follows it", arg, args[i + 1]),
                  fmt::format("a list is one value: {} '[0.9, 0.95]'", arg));
  }
  args = std::move(kept);
  return rest;
}

std::vector<std::string> take_program(std::vector<std::string>& args) {
  const auto dashes = std::find(args.begin(), args.end(), "--");
  if (dashes == args.end()) return {};
  std::vector<std::string> rest(dashes + 1, args.end());
  args.erase(dashes, args.end());
  return rest;
}

/// Takes out what means that a flag is not given: deepspeed's defaults, which wrappers write out.
void drop_deepspeed_defaults(std::vector<std::string>& args, std::string_view command) {
  if (command != "train" && command != "launch") return;
  for (const std::string flag : {"--num_nodes", "--num_gpus"}) {
    std::erase(args, flag + "=-1");
    const auto pair = std::ranges::search(args, std::array{flag, std::string("-1")});
    args.erase(pair.begin(), pair.end());
  }
}

/// The command's own options, those of every command, and those of other launchers that change
/// nothing, which help does not list.
void declare(CLI::App& app, Command& command, std::string& log_level) {
  app.set_help_flag();
  app.allow_extras();
  Options options(app);
  command.add_options(options);
  for (const IdleFlag& idle : idle_flags(command.name()))
    app.add_option(std::string(idle.name))->expected(idle.has_value ? 1 : 0)->group("");
  options
      .add("--log_level", log_level,
           "what launcher and workers log: debug, info, warning, error or off (default: "
           "HGTRAIN_LOG, else warning, and info in the workers' own logs)")
      .one_of({std::begin(kLogLevelNames), std::end(kLogLevelNames)});
  // Assigned as soon as it is parsed, so the last of the two counts.
  app.add_flag_callback(
      "-q,--quiet", [&log_level] { log_level = "error"; }, "as --log_level error");
}

/// Says which of the given flags have no effect.
void name_idle_flags(const CLI::App& app, std::string_view command) {
  for (const IdleFlag& idle : idle_flags(command))
    if (!idle.why.empty() && app.count(std::string(idle.name)) > 0)
      tell("hgtrain: {} has no effect here: {}\n", idle.name, idle.why);
}

/// Whether a flag takes the next word as its value. That of a flag that does not exist may be one.
bool takes_next(const CLI::App& app, const std::string& flag, const std::string& next) {
  if (flag.find('=') != std::string::npos) return false;
  if (const CLI::Option* option = app.get_option_no_throw(with_underscores(flag)))
    return option->get_items_expected_min() > 0;
  return !next.starts_with('-') && !next.ends_with(".py");
}

bool asks_for_help(const std::vector<std::string>& args) {
  return std::find(args.begin(), args.end(), "--help") != args.end() ||
         std::find(args.begin(), args.end(), "-h") != args.end();
}

bool mentions(const std::string& text, const std::string& flag) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz_";
  for (std::size_t at = text.find(flag); at != std::string::npos; at = text.find(flag, at + 1))
    if (at + flag.size() == text.size() ||
        kLetters.find(text[at + flag.size()]) == std::string_view::npos)
      return true;
  return false;
}

/// Where the flags that an error names come from, if the user has typed them under other names or
/// not at all; and whether the host that it names may be meant as a hostfile.
void note_origins(const CLI::App& app, const std::vector<std::string>& args, Error& error) {
  const std::string text = error.render();
  const CLI::Option* const hosts = app.get_option_no_throw("--hosts");
  const std::string host = hosts && hosts->count() > 0 ? hosts->results()[0] : "";
  std::error_code ignored;
  if (mentions(text, "host " + host) && std::filesystem::is_regular_file(host, ignored))
    error.note(fmt::format("--hosts {0} names a host; --hostfile {0} reads the file", host));
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string>& names = option->get_lnames();
    const auto said = std::ranges::find_if(
        names, [&](const std::string& name) { return mentions(text, "--" + name); });
    if (said == names.end()) continue;
    std::string typed, variable = option->get_envname();
    for (const std::string& arg : args)
      if (const std::string name = arg.substr(0, arg.find('='));
          name.starts_with('-') && app.get_option_no_throw(name) == option)
        typed = name;
    if (typed.empty() && !variable.empty() && std::getenv(variable.c_str()) != nullptr)
      error.note(fmt::format("--{} comes from the variable {}", *said, variable));
    if (typed.starts_with("--") && !mentions(text, typed))
      error.note(fmt::format("--{} is another name of {}", *said, typed));
  }
}

void require_current_folder() {
  std::error_code error;
  (void)std::filesystem::current_path(error);
  if (error == std::errc::no_such_file_or_directory)
    throw Error(ErrorKind::kConfig, "the current folder does not exist any more",
                "cd into one that does");
}

int run(CLI::App& app, Command& command, const std::vector<std::string>& args,
        const std::vector<std::string>& rest, const std::string& log_level,
        const Commands& commands) {
  if (command.name() == "train" || command.name() == "launch") require_current_folder();
  refuse_missing_values(app, args);
  parse_flags(app, command, args, commands);
  name_idle_flags(app, command.name());
  if (!log_level.empty()) ::setenv(kLogVariable, log_level.c_str(), 1);
  const LogSession log(command.name() == "agent" ? "agent" : "launcher",
                       log_level_from_environment(LogLevel::kWarning),
                       /*asynchronous=*/false);
  return command.run(rest);
}

}  // namespace

std::pair<std::string, std::string> words_of(std::string_view name) {
  const std::size_t space = name.find(' ');
  if (space == std::string_view::npos) return {std::string(name), ""};
  return {std::string(name.substr(0, space)), std::string(name.substr(space + 1))};
}

std::vector<std::string> flag_names(Command& command) {
  CLI::App app;
  std::string log_level;
  declare(app, command, log_level);
  return flag_names(app);
}

int run_command_line(std::vector<std::string> args, const Commands& commands) {
  const std::vector<std::string> before = take_log_level(args);
  if (!args.empty() && args[0] == "help") {
    args.erase(args.begin());
    args.emplace_back("--help");
  } else if (args.empty()) {
    args.emplace_back("--help");
  }
  if (args[0] == "--help" || args[0] == "-h") {
    print_help(commands);
    return 0;
  }
  if (args[0] == "--version") args[0] = "version";
  if (const std::string group = overview(commands, args[0]);
      args.size() == 2 && asks_for_help(args) && !find(commands, args[0]) && !group.empty()) {
    say("{}", group);
    return 0;
  }
  Command& command = choose(args, commands);
  args.insert(args.begin(), before.begin(), before.end());

  CLI::App app;
  std::string log_level;
  declare(app, command, log_level);
  std::vector<std::string> rest;
  if (command.rest() == Command::Rest::kProgram) {
    const auto takes_value = [&app](const std::string& flag, const std::string& next) {
      return takes_next(app, flag, next);
    };
    if (std::vector<std::string> marked = with_dashes(args, takes_value); marked != args) {
      // Whoever starts the command again, on another node or host, reads it from /proc.
      marked.insert(marked.begin(), {own_program().string(), std::string(command.name())});
      become_program(marked);
    }
    rest = take_program(args);
  }
  std::transform(args.begin(), args.end(), args.begin(), with_underscores);
  drop_deepspeed_defaults(args, command.name());

  if (command.rest() == Command::Rest::kOverrides) rest = take_overrides(args, flag_names(app));
  if (asks_for_help(args)) {
    print_help(command, app);
    return 0;
  }
  try {
    return run(app, command, args, rest, log_level, commands);
  } catch (Error& error) {
    note_origins(app, args, error);
    throw;
  }
}

}  // namespace hgt
