#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/exception.h"
#include "hgtrain/machine/resources.h"
#include "hgtrain/ops/cpu_instructions.h"

#include "commands.h"
#include "stacks.h"

namespace hgt {
namespace {

struct WorkerCommand {
  std::string_view name;
  int (*run)(std::string_view request);
};

template <class Request, int (*run)(const Request&)>
constexpr WorkerCommand kCommand{
    Request::kCommand, [](std::string_view text) { return run(decode_request<Request>(text)); }};

constexpr WorkerCommand kCommands[] = {
    kCommand<TrainRequest, train_worker>,
    kCommand<EvalRequest, eval_worker>,
    kCommand<GenerateRequest, generate_worker>,
    kCommand<BenchRequest, bench_worker>,
    kCommand<BenchLayoutsRequest, bench_layouts_worker>,
    kCommand<BenchCopyRequest, bench_copy_worker>,
    kCommand<BenchCommRequest, bench_comm_worker>,
};

std::string usage() {
  std::string out = "hgtrain-worker is started by hgtrain, one per device:\n";
  for (const WorkerCommand& command : kCommands)
    out += fmt::format("  hgtrain-worker {} REQUEST (JSON)\n", command.name);
  return out + "  hgtrain-worker probe\n";
}

/// Programs built on one machine may be copied to an older one.
void require_cpu_instructions() {
  const std::vector<std::string_view> missing = missing_cpu_flags(cpu_kernel_instructions());
  if (missing.empty()) return;
  throw Error(
      ErrorKind::kDevice,
      fmt::format("this program was compiled for CPUs with {}, and this one ({}) lacks {}",
                  fmt::join(cpu_kernel_instructions(), ", "), cpu_name(), fmt::join(missing, ", ")),
      "build it on this machine, or for all machines of the job with scripts/build "
      "-Dcpu_arch=x86-64-v3 (or x86-64)");
}

int run(int argc, char** argv) {
  require_cpu_instructions();
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (argc == 2 && name == "probe") return probe_worker();
  for (const WorkerCommand& command : kCommands)
    if (argc == 3 && name == command.name) return command.run(argv[2]);
  std::fputs(usage().c_str(), stderr);
  return static_cast<int>(ErrorKind::kConfig);
}

}  // namespace
}  // namespace hgt

int main(int argc, char** argv) {
  hgt::report_uncaught_bad_alloc();
  hgt::show_stack_of_crash();
  try {
    return hgt::run(argc, argv);
  } catch (const std::exception& e) {
    const hgt::Error error = hgt::error_from(e);
    std::fputs(error.render("hgtrain-worker").c_str(), stderr);
    return error.exit_code();
  }
}
