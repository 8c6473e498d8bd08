#include <unistd.h>

#include "hgtrain/base/error.h"
#include "hgtrain/launch/agent_process.h"

#include "commands.h"

namespace hgt {
namespace {

class Agent final : public Command {
 public:
  std::string_view name() const override { return "agent"; }
  std::string_view summary() const override {
    return "start the workers of one host; the launcher runs it, users do not";
  }
  void add_options(Options&) override {}

  int run(const std::vector<std::string>&) override {
    if (isatty(STDIN_FILENO))
      throw Error(ErrorKind::kConfig, "hgtrain agent speaks to a launcher, not to a terminal",
                  "hgtrain launch --hosts a,b -- PROGRAM starts it over ssh");
    return run_agent();
  }
};

}  // namespace

std::unique_ptr<Command> agent_command() {
  return std::make_unique<Agent>();
}

}  // namespace hgt
