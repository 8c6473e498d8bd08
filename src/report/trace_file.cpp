#include "hgtrain/report/trace_file.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/host.h"

namespace hgt {
namespace {

constexpr std::int64_t kMaxRankBytes = std::int64_t{4} << 30;

std::string folder_of(const std::string& run_dir) {
  return run_dir + "/trace";
}

std::string rank_file(const std::string& run_dir, int rank) {
  return fmt::format("{}/rank_{}.jsonl", folder_of(run_dir), rank);
}

const char* category(SpanRecord::Kind kind) {
  if (kind == SpanRecord::Kind::kCollective) return "collective";
  return kind == SpanRecord::Kind::kOp ? "op" : "phase";
}

/// "gemm", "step 4", "forward 3.0": trace viewers sum the time of spans of the same name.
std::string name_of(const SpanRecord& span) {
  if (span.number < 0 || span.kind == SpanRecord::Kind::kCollective) return span.name;
  const std::string text = fmt::format("{} {}", span.name, span.number);
  return span.micro < 0 ? text : fmt::format("{}.{}", text, span.micro);
}

std::string arguments(const SpanRecord& span) {
  std::string text;
  const auto add = [&](const char* name, auto value) {
    text += fmt::format("{}\"{}\":{}", text.empty() ? "" : ",", name, value);
  };
  if (span.number >= 0) add("number", span.number);
  if (span.micro >= 0) add("micro_batch", span.micro);
  const auto ns = static_cast<double>(span.end_ns - span.begin_ns);
  if (span.flops > 0 && ns > 0) add("GFLOP/s", span.flops / ns);
  if (span.bytes > 0 && ns > 0) add("GB/s", span.bytes / ns);
  return text;
}

/// The lines that name a process or thread.
std::string metadata(int rank, std::size_t thread, const char* what, const std::string& name) {
  return fmt::format(R"({{"name":"{0}_name","ph":"M","pid":{1},"tid":{2},"args":{{"name":"{3}"}}}})"
                     "\n"
                     R"({{"name":"{0}_sort_index","ph":"M","pid":{1},"tid":{2},)"
                     R"("args":{{"sort_index":{4}}}}})"
                     "\n",
                     what, rank, thread, name,
                     std::string_view(what) == "process" ? rank : static_cast<int>(thread));
}

void append_event(std::string& text, int rank, std::size_t thread, const SpanRecord& span) {
  const auto us = [](std::int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); };
  fmt::format_to(
      std::back_inserter(text),
      R"({{"name":"{}","cat":"{}","ph":"X","ts":{},"dur":{},"pid":{},"tid":{},"args":{{{}}}}})"
      "\n",
      name_of(span), category(span.kind), us(span.begin_ns), us(span.end_ns - span.begin_ns), rank,
      thread, arguments(span));
}

/// The zero of the monotonic clock since 1970, by which traces of several hosts can be aligned.
nlohmann::json clock_json() {
  return {{"clock", "CLOCK_BOOTTIME of " + host_name()},
          {"clock_zero_unix_us", clock_zero_ns() / 1000}};
}

/// Copies the lines that are JSON, because a worker may have died while it wrote the last one.
void copy_events(const std::string& lines, bool& first, File& to) {
  std::string out;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    const std::string_view line = std::string_view(lines).substr(begin, end - begin);
    begin = end + 1;
    if (!nlohmann::json::accept(line)) continue;
    out.append(first ? "" : ",\n").append(line);
    first = false;
  }
  to.write(out);
}

}  // namespace

void write_rank_trace(const std::string& run_dir, int rank, const std::string& place,
                      const std::vector<ThreadSpans>& threads) {
  std::string text = metadata(rank, 0, "process",
                              fmt::format("rank {}{}{}", rank, place.empty() ? "" : ": ", place));
  for (std::size_t thread = 0; thread < threads.size(); ++thread) {
    text += metadata(rank, thread, "thread", threads[thread].name);
    for (const SpanRecord& span : threads[thread].spans)
      if (span.end_ns > 0) append_event(text, rank, thread, span);
  }
  make_folders(folder_of(run_dir));
  write_file_atomically(rank_file(run_dir, rank), text);
}

std::vector<int> merge_rank_traces(const std::string& run_dir, int ranks, File& to) {
  std::vector<int> missing;
  bool first = true;
  to.write("{\"displayTimeUnit\":\"ms\",\n\"otherData\":" + clock_json().dump() +
           ",\n\"traceEvents\":[\n");
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string path = rank_file(run_dir, rank);
    if (path_exists(path))
      copy_events(read_file(path, kMaxRankBytes), first, to);
    else
      missing.push_back(rank);
  }
  to.write("\n]}\n");
  to.close();
  return missing;
}

void remove_rank_traces(const std::string& run_dir) {
  if (path_exists(folder_of(run_dir))) remove_tree(folder_of(run_dir));
}

}  // namespace hgt
