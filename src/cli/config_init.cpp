#include <algorithm>
#include <unistd.h>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/base/text.h"

#include "command.h"
#include "commands.h"
#include "options.h"

namespace hgt {
namespace {

class ConfigInit final : public Command {
 public:
  std::string_view name() const override { return "config init"; }
  std::string_view summary() const override { return "write a config to start from"; }

  void add_options(Options& options) override {
    options.add("PRESET", preset_, fmt::format("{}", fmt::join(preset_names(), ", ")));
    options.add("PATH", path_, "file to write, - for standard output (default: PRESET.json)");
  }

  int run(const std::vector<std::string>&) override {
    const std::string_view text = preset(preset_);
    if (text.empty()) {
      const std::string meant = nearest(preset_, preset_names());
      throw Error(ErrorKind::kConfig,
                  preset_.empty() ? "config init needs the name of a preset"
                                  : fmt::format("there is no preset '{}'", preset_),
                  fmt::format("{}one of: {}",
                              meant.empty() ? "" : fmt::format("did you mean '{}'? ", meant),
                              fmt::join(preset_names(), ", ")));
    }
    if (path_ == "-") {
      say("{}", text);
      return 0;
    }
    const std::string path = path_.empty() ? preset_ + ".json" : path_;
    if (access(path.c_str(), F_OK) == 0)
      throw Error(ErrorKind::kConfig, fmt::format("{} exists already", path),
                  fmt::format("name another: hgtrain config init {} PATH", preset_));
    write_new_file(path, text);
    tell("wrote {}: check data.train_data_path in it, then train: hgtrain --config {}\n", path,
         shell_word(path));
    return 0;
  }

 private:
  std::string preset_, path_;
};

}  // namespace

std::unique_ptr<Command> config_init_command() {
  return std::make_unique<ConfigInit>();
}

}  // namespace hgt
