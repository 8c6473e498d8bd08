#include <nlohmann/json.hpp>

#include "hgtrain/base/terminal.h"

#include "commands.h"
#include "detached_run.h"
#include "options.h"
#include "run_status.h"

namespace hgt {
namespace {

class Status final : public Command {
 public:
  std::string_view name() const override { return "status"; }
  std::string_view summary() const override {
    return "show how far a run is, and what each of its ranks does";
  }
  void add_options(Options& options) override {
    options.add("RUN", run_, kRunHelp);
    options.add_flag("--json", json_, "print one JSON object instead");
  }

  int run(const std::vector<std::string>&) override {
    const std::string folder = run_folder_of(run_);
    std::vector<std::string> flags;
    if (json_) flags.emplace_back("--json");
    if (const auto code = run_on_host_of(folder, "status", flags)) return *code;
    const nlohmann::json status = run_status(folder);
    if (json_)
      say("{}\n", status.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    else
      say("{}", status_text(status));
    return 0;
  }

 private:
  std::string run_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> status_command() {
  return std::make_unique<Status>();
}

}  // namespace hgt
