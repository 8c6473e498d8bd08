#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/json.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/base/text.h"
#include "hgtrain/config/schema.h"
#include "hgtrain/report/human.h"

#include "commands.h"
#include "config_command.h"
#include "options.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kNotBuilt:
      return "not_built";
    case Severity::kMissing:
      return "missing";
    case Severity::kNotice:
      return "notice";
  }
  return "";
}

bool is_trainable(const LoadResult& result) {
  return !result.has(Severity::kError) && !result.has(Severity::kNotBuilt) &&
         !result.has(Severity::kMissing);
}

Json to_json(const LoadResult& result) {
  Json keys = Json::array(), problems = Json::array();
  for (const KeyReport& key : result.keys)
    keys.push_back({{"path", key.path},
                    {"class", name_of(key.key_class)},
                    {"given", key.given},
                    {"switched_on", key.switched_on},
                    {"value", parse_json<Json>(key.value)},
                    {"help", key.help},
                    {"origin", text_of(key.origin)}});
  for (const Problem& p : result.problems)
    problems.push_back({{"severity", name_of(p.severity)},
                        {"message", p.message},
                        {"hint", p.hint},
                        {"file", p.file},
                        {"line", p.line},
                        {"pointer", p.pointer}});
  return {{"ok", !result.has(Severity::kError)},
          {"trainable", is_trainable(result)},
          {"problems", std::move(problems)},
          {"keys", std::move(keys)}};
}

/// "trainable", or "not trainable: 2 errors, 1 not built yet".
std::string verdict(const LoadResult& result) {
  const auto count = [&](Severity severity) {
    return std::ranges::count(result.problems, severity, &Problem::severity);
  };
  std::vector<std::string> why;
  if (const auto errors = count(Severity::kError)) why.push_back(human_plural(errors, "error"));
  if (const auto keys = count(Severity::kNotBuilt))
    why.push_back(fmt::format("{} not built yet", keys));
  if (const auto keys = count(Severity::kMissing)) why.push_back(fmt::format("{} missing", keys));
  return why.empty() ? "trainable" : fmt::format("not trainable: {}", fmt::join(why, ", "));
}

constexpr std::size_t kMaxLines = 200;  ///< of a list; the rest is counted

void print_rest(std::size_t lines) {
  if (lines > kMaxLines) say("  and {} more; --json lists all\n", lines - kMaxLines);
}

void print_keys(const LoadResult& result, KeyClass key_class, const char* title) {
  std::size_t lines = 0;
  for (const KeyReport& key : result.keys) {
    if (!key.given || key.key_class != key_class || key.switched_on) continue;
    if (++lines > kMaxLines) continue;
    if (lines == 1) say("{}\n", title);
    say("  {:46} {:24} {}\n", key.path, shortened(key.value), text_of(key.origin));
    if (key_class == KeyClass::kIgnored && !key.help.empty()) say("    {}\n", key.help);
  }
  print_rest(lines);
}

void print_problems(const LoadResult& result, Severity severity, const char* title) {
  std::size_t lines = 0;
  for (const Problem& p : result.problems) {
    if (p.severity != severity) continue;
    if (++lines > kMaxLines) continue;
    if (lines == 1) say("{}\n", title);
    say("  {}{}\n", p.message, p.where().empty() ? "" : " (" + p.where() + ")");
    if (!p.hint.empty()) say("    {}\n", p.hint);
  }
  print_rest(lines);
}

class ConfigCheck final : public Command {
 public:
  std::string_view name() const override { return "config check"; }
  std::string_view summary() const override {
    return "say of each key of a file whether it is used, ignored, not built yet or wrong";
  }
  Rest rest() const override { return Rest::kOverrides; }

  void add_options(Options& options) override {
    source_.add_options(options);
    options.add_flag("--json", json_, "print JSON");
  }

  int run(const std::vector<std::string>& overrides) override {
    const LoadResult result = source_.load(overrides);
    if (json_) {
      say("{}\n", to_json(result).dump(2, ' ', false, Json::error_handler_t::replace));
      return is_trainable(result) ? 0 : static_cast<int>(ErrorKind::kConfig);
    }
    print_keys(result, KeyClass::kUsed, "used");
    print_keys(result, KeyClass::kIgnored, "ignored: no effect on this run");
    print_keys(result, KeyClass::kNotBuilt, "not built yet, and switched off: no effect");
    print_problems(result, Severity::kNotBuilt, "not built yet: training refuses");
    print_problems(result, Severity::kMissing, "missing: training needs");
    print_problems(result, Severity::kNotice, "notices");
    print_problems(result, Severity::kError, "errors");
    say("{}: {}\n", source_.file, verdict(result));
    return is_trainable(result) ? 0 : static_cast<int>(ErrorKind::kConfig);
  }

 private:
  ConfigSource source_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> config_check_command() {
  return std::make_unique<ConfigCheck>();
}

}  // namespace hgt
