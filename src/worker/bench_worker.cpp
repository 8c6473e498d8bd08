#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/json.h"
#include "hgtrain/bench/bench.h"
#include "hgtrain/config/load.h"
#include "hgtrain/device/cuda_module.h"

#include "commands.h"

namespace hgt {
namespace {

nlohmann::ordered_json measure(const BenchRequest& request, std::int64_t start_ns) {
  const Config config = config_from_resolved(parse_json<nlohmann::ordered_json>(request.config));
  if (request.what == "train") return bench_train(config, request.repeats, start_ns);
  if (request.what == "gemm") return bench_gemm(config, request.repeats);
  if (request.what == "plan_ops") return plan_ops(config.precision.compute_dtype());
  return bench_ops(config, request.repeats);
}

/// Prints what `result()` gives. The exit status.
template <class Result>
int print(bool json, const Result& result) {
  try {
    const nlohmann::ordered_json found = result();
    const std::string text = json ? found.dump(2) + "\n" : bench_text(found);
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
      throw_file_error("write", "standard output", errno);
    return 0;
  } catch (const Error& e) {
    std::fputs(e.render("hgtrain").c_str(), stderr);
    return e.exit_code();
  }
}

}  // namespace

int bench_worker(const BenchRequest& request) {
  const std::int64_t start_ns = now_ns();
  return print(request.json, [&] { return measure(request, start_ns); });
}

int bench_copy_worker(const BenchCopyRequest& request) {
  return print(request.json, [&] {
    const CudaModule* const module = request.device == "cuda" ? &CudaModule::get() : nullptr;
    return bench_copy({request.bytes, static_cast<int>(request.threads), request.repeats}, module);
  });
}

}  // namespace hgt
