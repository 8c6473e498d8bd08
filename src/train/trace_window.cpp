#include "trace_window.h"

#include <algorithm>
#include <utility>

#include "hgtrain/base/error.h"
#include "hgtrain/base/log.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/report/trace_file.h"
#include "hgtrain/train/machine_rates.h"

namespace hgt {

namespace {

constexpr std::int64_t kWarmUp = 2;

}  // namespace

TraceWindow::TraceWindow(const RunOptions& options, int rank, std::string place)
    : options_(options), rank_(rank), place_(std::move(place)) {
  if (options_.record_steps == 0) return;
  name_thread("training");
  forget_spans();
  record_spans(Recording::kRare);
}

TraceWindow::~TraceWindow() {
  if (options_.record_steps > 0) record_spans(Recording::kOff);
}

void TraceWindow::measure_ceilings(Stream stream, DType compute_dtype) {
  constexpr double kBudgetMs = 200;
  ceilings_ = {measure_matrix_rate(stream, compute_dtype, kBudgetMs), measure_copy_rate(stream)};
}

void TraceWindow::plan(std::int64_t first_step, std::int64_t last_step) {
  const std::int64_t steps = last_step - first_step;
  begin_ = first_step + 1 + std::clamp<std::int64_t>(steps - 1, 0, kWarmUp);
  end_ = begin_ + std::min(options_.record_steps, last_step + 1 - begin_);
}

void TraceWindow::before_step(std::int64_t step) {
  if (options_.record_steps == 0) return;
  record_spans(step >= begin_ && step < end_ ? Recording::kAll : Recording::kRare);
  if (step == end_) write();
}

void TraceWindow::finish() {
  if (options_.record_steps == 0) return;
  record_spans(Recording::kOff);
  write();
}

void TraceWindow::write() const {
  if (const std::int64_t lost = lost_spans(); lost > 0)
    log_warning("trace: {} spans of the recorded steps had no room", lost);
  try {
    const std::vector<ThreadSpans> threads = recorded_spans();
    write_rank_trace(options_.run_dir, rank_, place_, threads);
    if (rank_ == 0) write_profile(options_.run_dir, make_profile(threads, ceilings_));
  } catch (const Error& e) {  // no reason to end a training
    log_warning("trace: {}", e.message());
  }
}

}  // namespace hgt
