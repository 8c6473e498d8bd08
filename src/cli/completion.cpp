#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "hgtrain/base/terminal.h"
#include "hgtrain/config/schema.h"

#include "commands.h"
#include "options.h"

namespace hgt {
namespace {

/// What may follow each word: "" the first words, "config" its second words, "config check" its
/// flags.
using Words = std::map<std::string, std::set<std::string>>;

std::set<std::string> flags_of(Command& command) {
  const std::vector<std::string> own = flag_names(command);
  std::set<std::string> flags(own.begin(), own.end());
  flags.insert("--help");
  if (command.rest() == Command::Rest::kOverrides)
    for (const std::string& path : config_key_paths()) flags.insert("--" + path);
  return flags;
}

Words all_words() {
  Words words;
  for (const auto& command : all_commands()) {
    const auto [first, second] = words_of(command->name());
    words[""].insert(first);
    if (!second.empty()) words[first].insert(second);
    words[std::string(command->name())] = flags_of(*command);
  }
  words[""].insert("help");
  for (const std::string& flag : words["train"]) words[""].insert(flag);
  words["completion"].merge(std::set<std::string>{"bash", "zsh", "fish"});
  return words;
}

/// A case of the shells' `case`: one pattern, one assignment.
std::string cases(const Words& words) {
  std::string out;
  for (const auto& [name, next] : words)
    if (name.find(' ') != std::string::npos)
      out += fmt::format("    '{} '*) next='{}' ;;\n", name, fmt::join(next, " "));
  for (const auto& [name, next] : words)
    if (!name.empty() && name.find(' ') == std::string::npos)
      out += fmt::format("    '{} '*) next='{}' ;;\n", name, fmt::join(next, " "));
  const auto train = words.find("train");
  if (train != words.end())
    out += fmt::format("    -*' '*) next='{}' ;;\n", fmt::join(train->second, " "));
  out += fmt::format("    *) next='{}' ;;\n", fmt::join(words.at(""), " "));
  return out;
}

/// The words before the cursor, each followed by a blank, choose the case. If no word fits, files
/// are completed.
std::string bash(const Words& words) {
  return "_hgtrain() {\n"
         "  local next before=''\n"
         "  [ \"$COMP_CWORD\" -gt 1 ] && before=\"${COMP_WORDS[*]:1:COMP_CWORD-1} \"\n"
         "  case \"$before\" in\n" +
         cases(words) +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$next\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
         "}\n"
         "complete -o default -F _hgtrain hgtrain\n";
}

/// In a folder of fpath, the script is the body of _hgtrain, which its first call defines anew; if
/// a shell sources it, it only registers the function.
std::string zsh(const Words& words) {
  return "#compdef hgtrain\n"
         "_hgtrain() {\n"
         "  local before='' next=''\n"
         "  (( CURRENT > 2 )) && before=\"${(j: :)words[2,CURRENT-1]} \"\n"
         "  case \"$before\" in\n" +
         cases(words) +
         "  esac\n"
         "  compadd -- ${=next} || _files\n"
         "}\n"
         "if [ \"$funcstack[1]\" = _hgtrain ]; then _hgtrain; else compdef _hgtrain hgtrain; fi\n";
}

std::string fish(const Words& words) {
  std::string out;
  for (const auto& [name, next] : words) {
    std::string condition = "__fish_use_subcommand";
    if (const auto [first, second] = words_of(name); !second.empty())
      condition = fmt::format("__fish_seen_subcommand_from {}; and __fish_seen_subcommand_from {}",
                              first, second);
    else if (!name.empty())
      condition = "__fish_seen_subcommand_from " + name;
    for (const std::string& word : next)
      out += fmt::format("complete -c hgtrain -n '{}' {} {}\n", condition,
                         word.starts_with("--") ? "-l" : "-a",
                         word.starts_with("--") ? word.substr(2) : word);
  }
  return out;
}

class Completion final : public Command {
 public:
  std::string_view name() const override { return "completion"; }
  std::string_view summary() const override {
    return "print a completion script for bash, zsh or fish";
  }
  void add_options(Options& options) override {
    options.add("SHELL", shell_, "bash, zsh or fish").required().one_of({"bash", "zsh", "fish"});
  }
  int run(const std::vector<std::string>&) override {
    const Words words = all_words();
    say("{}", shell_ == "bash" ? bash(words) : shell_ == "zsh" ? zsh(words) : fish(words));
    return 0;
  }

 private:
  std::string shell_;
};

}  // namespace

std::unique_ptr<Command> completion_command() {
  return std::make_unique<Completion>();
}

}  // namespace hgt
