#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/terminal.h"

#include "commands.h"
#include "config_command.h"
#include "options.h"

namespace hgt {
namespace {

class ConfigShow final : public Command {
 public:
  std::string_view name() const override { return "config show"; }
  std::string_view summary() const override {
    return "print the resolved config, and where each value came from";
  }
  Rest rest() const override { return Rest::kOverrides; }

  void add_options(Options& options) override {
    source_.add_options(options);
    options.add_flag("--origin", origin_, "print one line per key, with the source of its value");
  }

  int run(const std::vector<std::string>& overrides) override {
    const LoadResult result = source_.load(overrides);
    result.throw_errors();
    if (!origin_) {
      nlohmann::ordered_json shown = to_json(result.config);
      keep_not_built(result, shown);
      for (const char* format : {"bf16.", "fp16."})  // for the GPUs of a run to settle
        keep_auto(result, format, shown);
      if (!source_.world)
        for (const char* size : {"train_", "gradient_accumulation_steps"}) {
          keep_auto(result, size, shown);
          leave_out_derived(result, size, shown);
        }
      leave_out_unread(shown);
      say("{}\n", shown.dump(2));
      return 0;
    }
    for (const KeyReport& key : result.keys)
      if (key.key_class == KeyClass::kUsed)
        say("{:46} {:24} {}\n", key.path, key.value, text_of(key.origin));
    return 0;
  }

 private:
  ConfigSource source_;
  bool origin_ = false;
};

}  // namespace

std::unique_ptr<Command> config_show_command() {
  return std::make_unique<ConfigShow>();
}

}  // namespace hgt
