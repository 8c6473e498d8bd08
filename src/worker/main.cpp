#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "hgtrain/base/exception.h"

#include "bench_worker.h"
#include "comm_worker.h"
#include "eval_worker.h"
#include "generate_worker.h"
#include "probe_worker.h"
#include "train_worker.h"

namespace {

constexpr const char* kUsage =
    "hgtrain-worker is started by hgtrain, one per device:\n"
    "  hgtrain-worker train --run_dir DIR --config FILE --resume auto|none|PATH --record_steps N\n"
    "  hgtrain-worker eval model|ema SAMPLES CONFIG\n"
    "  hgtrain-worker generate --model FOLDER --prompt TEXT ...\n"
    "  hgtrain-worker bench train|gemm|ops REPEATS text|json CONFIG\n"
    "  hgtrain-worker bench_copy cpu|cuda BYTES THREADS REPEATS text|json\n"
    "  hgtrain-worker bench_comm auto|gloo OP MIN_BYTES MAX_BYTES REPEATS text|json "
    "cpu|cuda|shared\n"
    "  hgtrain-worker probe\n";

int usage() {
  std::fputs(kUsage, stderr);
  return static_cast<int>(hgt::ErrorKind::kConfig);
}

}  // namespace

int main(int argc, char** argv) {
  hgt::report_uncaught_bad_alloc();
  const std::vector<std::string> args(argv + 1, argv + argc);
  try {
    if (args.size() == 9 && args[0] == "train" && args[1] == "--run_dir" && args[3] == "--config" &&
        args[5] == "--resume" && args[7] == "--record_steps")
      return hgt::train_worker(args[4], {args[2], args[6], std::stoll(args[8])});
    if (!args.empty() && args[0] == "eval") return hgt::eval_worker({args.begin() + 1, args.end()});
    if (!args.empty() && args[0] == "generate")
      return hgt::generate_worker({args.begin() + 1, args.end()});
    if (!args.empty() && args[0] == "bench")
      return hgt::bench_worker({args.begin() + 1, args.end()});
    if (args.size() == 6 && args[0] == "bench_copy")
      return hgt::bench_copy_worker({args.begin() + 1, args.end()});
    if (!args.empty() && args[0] == "bench_comm")
      return hgt::comm_worker({args.begin() + 1, args.end()});
    if (args.size() == 1 && args[0] == "probe") return hgt::probe_worker();
    return usage();
  } catch (const std::exception& e) {
    const hgt::Error error = hgt::error_from(e);
    std::fputs(error.render("hgtrain-worker").c_str(), stderr);
    return error.exit_code();
  }
}
