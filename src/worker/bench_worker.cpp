#include "bench_worker.h"

#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/bench/bench.h"
#include "hgtrain/config/load.h"
#include "hgtrain/device/cuda_module.h"

namespace hgt {
namespace {

nlohmann::ordered_json measure(const std::string& which, const Config& config, std::int64_t repeats,
                               std::int64_t start_ns) {
  if (which == "train") return bench_train(config, repeats, start_ns);
  if (which == "gemm") return bench_gemm(config, repeats);
  if (which == "ops") return bench_ops(config, repeats);
  throw Error(ErrorKind::kConfig, "there is no bench " + which, "use hgtrain bench");
}

/// Prints what `result()` gives. The exit status.
template <class Result>
int print(const std::string& format, const Result& result) {
  try {
    const nlohmann::ordered_json found = result();
    const std::string text = format == "json" ? found.dump(2) + "\n" : bench_text(found);
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
      throw_file_error("write", "standard output", errno);
    return 0;
  } catch (const Error& e) {
    std::fputs(e.render("hgtrain").c_str(), stderr);
    return e.exit_code();
  }
}

}  // namespace

int bench_worker(const std::vector<std::string>& args) {
  const std::int64_t start_ns = now_ns();
  return print(args.size() == 4 ? args[2] : "text", [&] {
    if (args.size() != 4)
      throw Error(ErrorKind::kConfig, "hgtrain-worker bench lacks a word", "use hgtrain bench");
    const Config config = config_from_resolved(nlohmann::ordered_json::parse(args[3]));
    return measure(args[0], config, std::stoll(args[1]), start_ns);
  });
}

int bench_copy_worker(const std::vector<std::string>& args) {
  return print(args.at(4), [&] {
    const CudaModule* const module = args.at(0) == "cuda" ? &CudaModule::get() : nullptr;
    return bench_copy({std::stoll(args.at(1)), std::stoi(args.at(2)), std::stoll(args.at(3))},
                      module);
  });
}

}  // namespace hgt
