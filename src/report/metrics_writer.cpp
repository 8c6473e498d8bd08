#include "hgtrain/report/metrics_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/json.h"
#include "hgtrain/report/human.h"

#include "step_fields.h"

namespace hgt {

namespace {

std::string json_line(const StepRecord& record) {
  nlohmann::ordered_json json;
  for_each_field(record,
                 [&](const char* name, const auto& value) { put_field(json, name, value); });
  return json.dump() + "\n";
}

std::string csv_header(const StepRecord& record) {
  std::string line;
  for_each_field(record, [&](const char* name, const auto&) { (line += name) += ','; });
  line.back() = '\n';
  return line;
}

std::string csv_line(const StepRecord& record) {
  std::string line;
  for_each_field(record, [&](const char*, const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::int64_t>) {
      fmt::format_to(std::back_inserter(line), "{}", value);
    } else {
      const std::optional<double> number = value;
      if (number && std::isfinite(*number)) fmt::format_to(std::back_inserter(line), "{}", *number);
    }
    line += ',';
  });
  line.back() = '\n';
  return line;
}

/// The record of a line, if it is a whole one.
std::optional<StepRecord> parse_line(const std::string& line) {
  const nlohmann::json json = try_parse_json<nlohmann::json>(line);
  if (!json.is_object()) return std::nullopt;
  try {
    return json.get<StepRecord>();
  } catch (const Error&) {
    return std::nullopt;
  }
}

File open_for_append(const std::string& path, int flags) {
  return File::open(path, O_WRONLY | O_CREAT | O_APPEND | flags);
}

/// The new metrics.jsonl until the old one is renamed.
std::string next_path(const std::string& run_dir) {
  return run_dir + "/metrics.next.jsonl";
}

/// If a kill interrupted set_aside(), completes it or starts it again.
File open_metrics(const std::string& run_dir) {
  const std::string path = run_dir + "/metrics.jsonl", next = next_path(run_dir);
  if (path_exists(next)) path_exists(path) ? remove_file(next) : rename_path(next, path);
  return open_for_append(path, 0);
}

/// Calls line(text, number) for every line of a file that ends with a newline.
template <class Fn>
void for_each_line(const std::string& path, const Fn& line) {
  constexpr std::size_t kChunkBytes = 4096, kMaxLineBytes = 1 << 20;
  File file = File::open(path, O_RDONLY);
  std::vector<char> chunk(kChunkBytes);
  std::string text;
  for (std::int64_t number = 1;;) {
    const std::size_t bytes = file.read(std::as_writable_bytes(std::span(chunk)));
    if (bytes == 0) return;
    for (const char c : std::span(chunk).first(bytes)) {
      if (c == '\n')
        line(std::exchange(text, {}), number++);
      else if (text.size() < kMaxLineBytes)  // longer than any record: it stays none
        text += c;
    }
  }
}

/// Calls record(line, parsed) for the records of a metrics.jsonl whose steps ascend. Nullopt, or
/// why there may have been others.
template <class Fn>
std::optional<std::string> read_records(const std::string& path, const Fn& record) {
  std::int64_t step = 0, first_damaged = 0, damaged = 0;
  try {
    for_each_line(path, [&](const std::string& line, std::int64_t number) {
      const std::optional<StepRecord> parsed = parse_line(line);
      if (parsed && parsed->step > step) {
        step = parsed->step;
        record(line, *parsed);
      } else if (damaged++ == 0) {
        first_damaged = number;
      }
    });
  } catch (const Error& error) {
    return error.message();
  }
  if (damaged == 0) return std::nullopt;
  return fmt::format("{}: line {} is not the record of a step{}", path, first_damaged,
                     damaged > 1 ? fmt::format(", nor are {} more", damaged - 1) : "");
}

/// What went wrong with either file.
std::optional<std::string> problem_of(const std::optional<std::string>& jsonl,
                                      const std::optional<std::string>& csv) {
  if (jsonl && csv) return *jsonl + "; " + *csv;
  return jsonl ? jsonl : csv;
}

}  // namespace

MetricsWriter::MetricsWriter(const std::string& run_dir, std::int64_t resumed_step,
                             OtherRecords others)
    : jsonl_{open_metrics(run_dir)}, csv_{open_for_append(run_dir + "/metrics.csv", O_TRUNC)} {
  restore(resumed_step, others);
}

void MetricsWriter::restore(std::int64_t resumed_step, OtherRecords others) {
  const std::string path = jsonl_.file.path();
  const std::int64_t last_own_step = others.until_resumed_step ? 0 : resumed_step;
  bool has_others = false;
  std::int64_t kept_bytes = 0, last_kept = 0;
  csv_.add(csv_header({}));
  const auto problem = read_records(path, [&](const std::string& line, const StepRecord& record) {
    if (record.step > last_own_step) {
      has_others = has_others || record.step <= resumed_step || others.after_resumed_step;
      return;
    }
    if (last_kept > 0) note_gap(last_kept, record.step);
    last_kept = record.step;
    if (std::isfinite(record.elapsed_s)) elapsed_s_ = record.elapsed_s;
    kept_bytes += static_cast<std::int64_t>(line.size()) + 1;
    csv_.copy(csv_line(record));
  });
  (void)csv_.flush();
  note_gap(last_kept, last_own_step + 1);
  if (problem)
    kept_aside_ = fmt::format("{}; the file is kept as {}, and {} has the steps that could be read",
                              *problem, set_aside("damaged", last_own_step), path);
  else if (has_others)
    kept_aside_ = fmt::format("{} are kept in {}",
                              others.until_resumed_step
                                  ? "the run begins a branch: the metrics of its other steps"
                                  : "the run goes back: the metrics of its later steps",
                              set_aside("superseded", last_own_step));
  else
    jsonl_.file.truncate(kept_bytes);
}

/// Steps between `before` and `after` have no record.
void MetricsWriter::note_gap(std::int64_t before, std::int64_t after) {
  if (after <= before + 1) return;
  const std::string steps = after == before + 2
                                ? fmt::format("step {}", before + 1)
                                : fmt::format("steps {} to {}", before + 1, after - 1);
  missing_ = missing_ ? *missing_ + ", " + steps
                      : fmt::format("{} has no records of {}", jsonl_.file.path(), steps);
}

/// Begins a new metrics.jsonl with the records up to `last_own_step`. The old one becomes
/// metrics.AS.jsonl, or the first of metrics.AS-2.jsonl, ... that is free: its name is returned.
std::string MetricsWriter::set_aside(const char* as, std::int64_t last_own_step) {
  const std::string path = jsonl_.file.path(), folder = parent_folder(path);
  const std::string aside = free_path(folder + "/metrics." + as, ".jsonl");
  jsonl_.file = open_for_append(next_path(folder), O_TRUNC);
  (void)read_records(path, [&](const std::string& line, const StepRecord& record) {
    if (record.step <= last_own_step) jsonl_.copy(line + '\n');
  });
  (void)jsonl_.flush();
  (void)sync();
  rename_path(path, aside);
  rename_path(next_path(folder), path);
  jsonl_.file = open_for_append(path, 0);
  return aside;
}

std::optional<std::string> MetricsWriter::write(const StepRecord& record) {
  const auto jsonl_problem = jsonl_.write(json_line(record));
  return problem_of(jsonl_problem, csv_.write(csv_line(record)));
}

std::optional<std::string> MetricsWriter::finish() {
  const auto jsonl_problem = jsonl_.finish();
  return problem_of(jsonl_problem, csv_.finish());
}

std::optional<std::string> MetricsWriter::sync() {
  try {
    jsonl_.file.sync();
    sync_folder(parent_folder(jsonl_.file.path()));
  } catch (const Error& e) {
    return e.message();
  }
  return std::nullopt;
}

void MetricsWriter::Output::add(const std::string& line) {
  if (pending.size() + line.size() <= kMaxPendingBytes)
    pending += line;
  else
    ++lost;
}

void MetricsWriter::Output::copy(const std::string& line) {
  add(line);
  if (pending.size() > kMaxPendingBytes / 2) (void)flush();
}

std::optional<std::string> MetricsWriter::Output::flush() {
  const auto [done, error] = write_bytes(file.fd(), pending);
  pending.erase(0, done);
  if (error == 0) return std::nullopt;
  return fmt::format("cannot write {}: {}", file.path(), std::strerror(error));
}

std::optional<std::string> MetricsWriter::Output::write(const std::string& line) {
  add(line);
  const std::optional<std::string> problem = flush();
  if (lost == 0) return problem;
  if (problem) return *problem + "; the lines of the steps from here on are lost";
  return fmt::format("{} is incomplete: {} could not be written", file.path(),
                     human_plural(std::exchange(lost, 0), "line"));
}

std::optional<std::string> MetricsWriter::Output::finish() {
  const std::optional<std::string> problem = flush();
  // If a part of a line was written, its end is still pending.
  const std::int64_t lost_lines = lost + std::ranges::count(pending, '\n');
  if (lost_lines == 0) return std::nullopt;
  return fmt::format("{} is incomplete: {} could not be written{}", file.path(),
                     human_plural(lost_lines, "line"), problem ? " (" + *problem + ")" : "");
}

}  // namespace hgt
