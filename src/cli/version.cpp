#include <fmt/format.h>

#include "hgtrain/base/terminal.h"

#include "commands.h"

namespace hgt {
namespace {

class Version final : public Command {
 public:
  std::string_view name() const override { return "version"; }
  std::string_view summary() const override { return "print the version"; }
  void add_options(Options&) override {}
  int run(const std::vector<std::string>&) override {
    say("hgtrain {}\n", HGT_VERSION);
    return 0;
  }
};

}  // namespace

std::unique_ptr<Command> version_command() {
  return std::make_unique<Version>();
}

}  // namespace hgt
