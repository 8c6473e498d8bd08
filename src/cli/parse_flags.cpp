#include "parse_flags.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/error_list.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/base/text.h"
#include "hgtrain/config/schema.h"

#include "foreign_flags.h"

namespace hgt {
namespace {

constexpr std::string_view kMayBeEmpty = "--prompt";

/// Whether `word` begins the name of a command.
bool is_first_word(const std::string& word, const Commands& commands) {
  return std::ranges::any_of(
      commands, [&](const auto& command) { return words_of(command->name()).first == word; });
}

/// A value that is none of an option's choices, if `what` is CLI11's message about that:
/// "--device: gpu not in {auto,cuda,cpu}".
std::optional<Error> wrong_choice(const std::string& what) {
  constexpr std::string_view kMiddle = " not in {";
  const std::size_t colon = what.find(": "), middle = what.rfind(kMiddle);
  if (colon == std::string::npos || middle == std::string::npos || !what.ends_with('}'))
    return std::nullopt;
  const std::string value = what.substr(colon + 2, middle - colon - 2);
  const std::size_t begin = middle + kMiddle.size();
  std::istringstream list(what.substr(begin, what.size() - 1 - begin));
  std::vector<std::string> choices;
  for (std::string choice; std::getline(list, choice, ',');) choices.push_back(choice);
  const std::string last = choices.back();
  const std::string meant = value == "gpu"       ? "cuda"
                            : value == "verbose" ? "debug"
                                                 : nearest(value, choices);
  choices.pop_back();
  return usage(fmt::format("{} {}: use {} or {}", what.substr(0, colon), value,
                           fmt::join(choices, ", "), last),
               meant.empty() ? "" : fmt::format("did you mean {}?", meant));
}

/// CLI11's message with the name that was typed: CLI11 calls an option by the first of its names.
std::string with_typed_name(std::string what, const CLI::App& app,
                            const std::vector<std::string>& args) {
  const std::size_t begin = what.find("--"), end = what.find_first_of(" :", begin);
  if (begin == std::string::npos || end == std::string::npos) return what;
  const CLI::Option* option = app.get_option_no_throw(what.substr(begin, end - begin));
  for (const std::string& arg : args)
    if (const std::string name = arg.substr(0, arg.find('='));
        option && name.starts_with("--") && app.get_option_no_throw(name) == option)
      return what.replace(begin, end - begin, name);
  return what;
}

/// CLI11's message as it is if it says what to do, otherwise in our words.
std::string reworded(const std::string& what) {
  const std::string convert = "Could not convert: ";
  if (what.starts_with(convert)) return "cannot understand " + what.substr(convert.size());
  const std::string flag = what.substr(0, what.find(':'));
  if (what.ends_with(" missing")) return flag + " needs a value";
  if (what.find("At Most 1 required") != std::string::npos) return flag + " is given twice";
  return what;
}

/// Which values an option takes, if `what` says that it cannot convert the one given; otherwise "".
std::string wanted(const CLI::App& app, const std::string& what) {
  const std::string flag = what.substr(0, what.find(" = "));
  const std::size_t dashes = flag.find("--");
  if (!what.starts_with("Could not convert: ") || dashes == std::string::npos) return "";
  const CLI::Option* option = app.get_option_no_throw(flag.substr(dashes));
  if (option == nullptr) return "";
  const std::string value = what.substr(std::min(flag.size() + 3, what.size()));
  if (std::string hint = hint_for_value(flag.substr(dashes), value); !hint.empty()) return hint;
  return fmt::format("{} takes a {}number: {}", flag.substr(dashes),
                     option->get_type_name() == "FLOAT" ? "" : "whole ", option->get_description());
}

/// The required options that are not given.
std::vector<const CLI::Option*> missing_options(const CLI::App& app) {
  std::vector<const CLI::Option*> missing;
  for (const CLI::Option* option : app.get_options())
    if (option->get_required() && option->count() == 0) missing.push_back(option);
  return missing;
}

/// All required options that are not given, if there are any.
void require_options(const CLI::App& app) {
  std::vector<std::string> names, descriptions;
  for (const CLI::Option* option : missing_options(app)) {
    names.push_back(option->get_name());
    descriptions.push_back(fmt::format("{}: {}", option->get_name(), option->get_description()));
  }
  if (!names.empty())
    throw usage(
        fmt::format("{} {} required", fmt::join(names, " and "), names.size() == 1 ? "is" : "are"),
        fmt::format("{}", fmt::join(descriptions, "; ")));
}

/// What to do about a word that no flag took; "" if nothing is known.
std::string hint_for_extra(const CLI::App& app, const Command& command, const std::string& extra) {
  const std::vector<const CLI::Option*> missing = missing_options(app);
  if (missing.size() == 1) return "use " + missing[0]->get_name() + " " + shell_word(extra);
  const CLI::Option* const hosts = app.get_option_no_throw("--hosts");
  if (hosts != nullptr && hosts->count() > 0 && extra.find(':') != std::string::npos)
    return "hosts are separated by commas, without blanks: --hosts a:4,b:4";
  const CLI::Option* const config = app.get_option_no_throw("--config");
  const bool has_config = config != nullptr && config->count() > 0;
  return has_config && hint_for_script(extra).empty() ? "a value that has blanks needs quotes"
                                                      : hint_for_word(command.name(), extra);
}

/// Words that no flag took.
void refuse_extras(const CLI::App& app, const Command& command, const Commands& commands) {
  const std::string help = fmt::format("see `hgtrain help {}`", command.name());
  const std::vector<std::string> extras = app.remaining();
  for (const std::string& extra : extras)
    if (command.name() == kDefaultCommand && is_first_word(extra, commands))
      throw usage(fmt::format("'{}' is one argument too many for {}", extra, command.name()),
                  fmt::format("the command comes first: hgtrain {} ...", extra));
  ErrorList wrong;
  bool follows_flag = false;  // then a word may be its value
  for (const std::string& extra : extras) {
    const bool is_flag = extra.starts_with('-');
    if (!is_flag && !follows_flag) {
      const std::string hint = hint_for_extra(app, command, extra);
      wrong.add(usage(fmt::format("'{}' is one argument too many for {}", extra, command.name()),
                      hint.empty() ? help : hint));
      if (command.rest() == Command::Rest::kProgram) break;  // what follows is the program's
    }
    follows_flag = is_flag && extra.find('=') == std::string::npos;
    if (!is_flag) continue;
    const std::string name = extra.substr(0, extra.find('='));
    std::string hint = hint_for_flag(command.name(), name);
    std::vector<std::string> known = flag_names(app);
    if (command.rest() == Command::Rest::kOverrides)
      for (const std::string& path : config_key_paths())
        if (path.find('.') == std::string::npos) known.push_back("--" + path);
    if (const std::string meant = nearest(name, known); hint.empty() && !meant.empty())
      hint = fmt::format("did you mean {}?", meant);
    if (hint.empty() && command.rest() == Command::Rest::kProgram)
      hint = "flags of the program go after it; " + help;
    wrong.add(
        usage(fmt::format("{} has no flag {}", command.name(), name), hint.empty() ? help : hint));
  }
  wrong.throw_if_any();
}

}  // namespace

Error usage(std::string message, std::string hint) {
  return Error(ErrorKind::kConfig, std::move(message), std::move(hint));
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

void parse_flags(CLI::App& app, const Command& command, const std::vector<std::string>& args,
                 const Commands& commands) {
  const std::string help = fmt::format("see `hgtrain help {}`", command.name());
  const auto not_empty = [](const std::string& value) {
    return std::string(value.empty() ? "missing" : "");
  };
  for (CLI::Option* option : app.get_options())  // CLI11 accepts an empty text as a number
    if (option->get_name() != kMayBeEmpty && option->get_items_expected_min() > 0)
      option->check(not_empty, "", "");
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));  // CLI11 takes the last first
  } catch (const CLI::ParseError& e) {
    refuse_extras(app, command, commands);  // what is required may stand there, without its flag
    const std::string what = with_typed_name(e.what(), app, args);
    if (const std::optional<Error> wrong = wrong_choice(what)) throw *wrong;
    if (what.ends_with(" is required")) require_options(app);
    const std::string hint = wanted(app, what);
    throw usage(reworded(what), hint.empty() ? help : hint);
  }
  refuse_extras(app, command, commands);
}

}  // namespace hgt
