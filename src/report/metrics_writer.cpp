#include "hgtrain/report/metrics_writer.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"

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
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

Error file_error(const std::string& what, const std::string& path) {
  return Error(ErrorKind::kData, fmt::format("cannot {} {}: {}", what, path, std::strerror(errno)));
}

int open_for_append(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | flags, 0644);
  if (fd < 0) throw file_error("open", path);
  return fd;
}

}  // namespace

MetricsWriter::MetricsWriter(const std::string& run_dir, std::int64_t resumed_step)
    : jsonl_{run_dir + "/metrics.jsonl"}, csv_{run_dir + "/metrics.csv"} {
  jsonl_.fd = open_for_append(jsonl_.path, 0);
  try {
    csv_.fd = open_for_append(csv_.path, O_TRUNC);
    restore(resumed_step);
  } catch (...) {
    if (csv_.fd >= 0) ::close(csv_.fd);
    ::close(jsonl_.fd);
    throw;
  }
}

MetricsWriter::~MetricsWriter() {
  (void)jsonl_.flush();
  (void)csv_.flush();
  ::close(jsonl_.fd);
  ::close(csv_.fd);
}

void MetricsWriter::restore(std::int64_t resumed_step) {
  constexpr std::size_t kChunkBytes = 1 << 20;
  std::ifstream in(jsonl_.path, std::ios::binary);
  if (!in) throw file_error("read", jsonl_.path);
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
  if (::ftruncate(jsonl_.fd, kept_bytes) != 0) throw file_error("cut back", jsonl_.path);
  (void)csv_.flush();
}

std::optional<std::string> MetricsWriter::write(const StepRecord& record) {
  jsonl_.pending += json_line(record);
  csv_.pending += csv_line(record);
  const std::optional<std::string> jsonl_problem = jsonl_.flush();
  const std::optional<std::string> csv_problem = csv_.flush();
  return jsonl_problem ? jsonl_problem : csv_problem;
}

std::optional<std::string> MetricsWriter::Output::flush() {
  while (!pending.empty()) {
    const ssize_t written = ::write(fd, pending.data(), pending.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fmt::format("cannot write {}: {}", path, std::strerror(errno));
    pending.erase(0, static_cast<std::size_t>(written));
  }
  return std::nullopt;
}

}  // namespace hgt
