#include <algorithm>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/config/schema.h"

#include "commands.h"
#include "config_command.h"

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
                    {"value", Json::parse(key.value)},
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

void print_keys(const LoadResult& result, KeyClass key_class, const char* title) {
  bool first = true;
  for (const KeyReport& key : result.keys) {
    if (!key.given || key.key_class != key_class || key.switched_on) continue;
    if (first) say("{}\n", title);
    first = false;
    say("  {:46} {:24} {}\n", key.path, key.value, text_of(key.origin));
  }
}

void print_problems(const LoadResult& result, Severity severity, const char* title) {
  bool first = true;
  for (const Problem& p : result.problems) {
    if (p.severity != severity) continue;
    if (first) say("{}\n", title);
    first = false;
    say("  {}{}\n", p.message, p.where().empty() ? "" : " (" + p.where() + ")");
    if (!p.hint.empty()) say("    {}\n", p.hint);
  }
}

class ConfigCheck final : public Command {
 public:
  std::string_view name() const override { return "config check"; }
  std::string_view summary() const override {
    return "say of every key of a file what becomes of it";
  }
  Rest rest() const override { return Rest::kOverrides; }

  void add_options(CLI::App& app) override {
    source_.add_options(app);
    app.add_flag("--json", json_, "print JSON");
  }

  int run(const std::vector<std::string>& overrides) override {
    const LoadResult result = source_.load(overrides);
    if (json_) {
      say("{}\n", to_json(result).dump(2, ' ', false, Json::error_handler_t::replace));
      return is_trainable(result) ? 0 : static_cast<int>(ErrorKind::kConfig);
    }
    print_keys(result, KeyClass::kUsed, "used");
    print_keys(result, KeyClass::kNoticed, "noticed: no effect on this run");
    print_keys(result, KeyClass::kNotBuilt, "not built yet, and switched off: no effect");
    print_problems(result, Severity::kNotBuilt, "not built yet: training refuses");
    print_problems(result, Severity::kMissing, "missing: training needs");
    print_problems(result, Severity::kNotice, "notices");
    std::fflush(stdout);
    result.throw_errors();
    if (!is_trainable(result))
      throw Error(
          ErrorKind::kConfig,
          fmt::format("{} is read without an error, but training would not start", source_.file),
          "what is missing or not built yet is listed above");
    return 0;
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
