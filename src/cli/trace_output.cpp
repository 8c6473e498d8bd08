#include "trace_output.h"

#include <fmt/format.h>

#include "hgtrain/base/file.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/report/profile.h"
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
  if (flags.trace.empty() && !flags.profile) return;
  record_steps_ = flags.trace_steps.value_or(kDefaultSteps);
  profile_ = flags.profile;
  trace_ = flags.trace;
  if (!trace_.empty()) check_writable(trace_);
}

void TraceOutput::clear(const std::string& run_dir) const {
  if (record_steps_ == 0) return;
  remove_rank_traces(run_dir);
  if (const std::string profile = run_dir + "/profile.json"; path_exists(profile))
    remove_file(profile);
}

void TraceOutput::finish(const std::string& run_dir, int workers) const {
  if (!trace_.empty()) {
    File file = File::open(trace_, O_WRONLY | O_CREAT | O_TRUNC);
    for (const int rank : merge_rank_traces(run_dir, workers, file))
      tell("hgtrain: note: rank {} left no trace\n", rank);
    tell("  trace    {}\n", trace_);
  }
  if (profile_ && path_exists(run_dir + "/profile.json"))
    say("{}", profile_table(read_profile(run_dir)));
  else if (profile_)
    tell("hgtrain: note: the run ended before the steps of its profile\n");
  if (record_steps_ > 0) remove_rank_traces(run_dir);
}

}  // namespace hgt
