#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/terminal.h"
#include "hgtrain/config/schema.h"

#include "commands.h"
#include "options.h"

namespace hgt {
namespace {

class ConfigSchema final : public Command {
 public:
  std::string_view name() const override { return "config schema"; }
  std::string_view summary() const override {
    return "print the JSON Schema of a config, for editors";
  }

  void add_options(Options& options) override {
    options.add_flag("--text", text_, "print one line per key instead: path, default, meaning");
    options.add_flag("--all", all_, "with --text: also keys that are ignored or not built yet");
  }

  int run(const std::vector<std::string>&) override {
    if (text_)
      say("{}", config_keys_text(all_));
    else
      say("{}\n", config_schema().dump(2));
    return 0;
  }

 private:
  bool text_ = false, all_ = false;
};

}  // namespace

std::unique_ptr<Command> config_schema_command() {
  return std::make_unique<ConfigSchema>();
}

}  // namespace hgt
