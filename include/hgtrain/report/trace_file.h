#pragma once

#include <string>
#include <vector>

#include "hgtrain/base/file.h"
#include "hgtrain/base/trace.h"

namespace hgt {

// A trace in Chrome's format, for chrome://tracing and ui.perfetto.dev: a process is a rank, a span
// an event "X" with `ts` and `dur` in microseconds of the host's monotonic clock.

/// Writes the spans of a rank to RUN/trace/rank_N.jsonl, one event a line, and replaces an existing
/// file. Spans that are still open are left out. `place`: the rank's place in the layout, which is
/// added to the process's name; may be "".
void write_rank_trace(const std::string& run_dir, int rank, const std::string& place,
                      const std::vector<ThreadSpans>& threads);

/// Writes the events of ranks 0 to `ranks` - 1 into `to` as one trace. Returns the ranks without
/// events.
std::vector<int> merge_rank_traces(const std::string& run_dir, int ranks, File& to);

/// Removes RUN/trace, if it is there.
void remove_rank_traces(const std::string& run_dir);

}  // namespace hgt
