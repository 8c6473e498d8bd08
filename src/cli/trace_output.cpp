#include "trace_output.h"

#include <filesystem>

#include <fmt/format.h>

#include "hgtrain/base/file.h"
#include "hgtrain/report/trace_file.h"

namespace hgt {

namespace {

constexpr std::int64_t kDefaultSteps = 10;

void check_writable(const std::string& path) {
  try {
    File::open(path, O_WRONLY | O_CREAT, 0666, ErrorKind::kConfig);
  } catch (const Error& e) {
    throw Error(e.kind(), e.message(), "name a file in a folder that is there: --trace FILE");
  }
}

}  // namespace

TraceOutput::TraceOutput(const TrainFlags& flags) {
  if (flags.trace.empty()) return;
  record_steps_ = flags.trace_steps.value_or(kDefaultSteps);
  trace_ = flags.trace;
  check_writable(trace_);
}

void TraceOutput::clear(const std::string& run_dir) const {
  if (record_steps_ > 0 && std::filesystem::exists(run_dir + "/trace"))
    remove_tree(run_dir + "/trace");
}

void TraceOutput::finish(const std::string& run_dir, int workers) {
  if (trace_.empty()) return;
  File file = File::open(trace_, O_WRONLY | O_CREAT | O_TRUNC);
  for (const int rank : merge_rank_traces(run_dir, workers, file))
    fmt::print(stderr, "hgtrain: note: rank {} left no trace\n", rank);
  fmt::print(stderr, "  trace    {}\n", trace_);
}

}  // namespace hgt
