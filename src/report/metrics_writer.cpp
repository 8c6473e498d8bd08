#include "hgtrain/report/metrics_writer.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/file_ops.h"

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
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
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

}  // namespace

MetricsWriter::MetricsWriter(const std::string& run_dir, std::int64_t resumed_step)
    : jsonl_{open_for_append(run_dir + "/metrics.jsonl", 0)},
      csv_{open_for_append(run_dir + "/metrics.csv", O_TRUNC)} {
  restore(resumed_step);
}

void MetricsWriter::restore(std::int64_t resumed_step) {
  constexpr std::size_t kChunkBytes = 1 << 20;
  std::ifstream in(jsonl_.file.path(), std::ios::binary);
  if (!in) throw_file_error("read", jsonl_.file.path(), errno);
  csv_.pending = csv_header({});
  std::int64_t kept_bytes = 0, last_step = 0;
  for (std::string line; std::getline(in, line) && !in.eof();) {  // eof: no newline, a torn line
    const std::optional<StepRecord> record = parse_line(line);
    if (!record || record->step <= last_step || record->step > resumed_step) break;
    last_step = record->step;
    kept_bytes += static_cast<std::int64_t>(line.size()) + 1;
    csv_.pending += csv_line(*record);
    if (csv_.pending.size() > kChunkBytes) (void)csv_.flush();
  }
  jsonl_.file.truncate(kept_bytes);
  (void)csv_.flush();
}

std::optional<std::string> MetricsWriter::write(const StepRecord& record) {
  jsonl_.pending += json_line(record);
  csv_.pending += csv_line(record);
  const std::optional<std::string> jsonl_problem = jsonl_.flush();
  const std::optional<std::string> csv_problem = csv_.flush();
  return jsonl_problem ? jsonl_problem : csv_problem;
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

std::optional<std::string> MetricsWriter::Output::flush() {
  while (!pending.empty()) {
    const ssize_t written = file_ops().write(file.fd(), pending.data(), pending.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fmt::format("cannot write {}: {}", file.path(), std::strerror(errno));
    pending.erase(0, static_cast<std::size_t>(written));
  }
  return std::nullopt;
}

}  // namespace hgt
