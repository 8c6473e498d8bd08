#include "hgtrain/report/run_file.h"

#include <ctime>

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/base/json.h"

namespace hgt {

namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json failure_json(const RunFile::Failure& f) {
  return {{"rank", f.rank < 0 ? Json(nullptr) : Json(f.rank)},
          {"message", f.message},
          {"context", f.context},
          {"hint", text_or_null(f.hint)},
          {"log", text_or_null(f.log)}};
}

Json summary_json(const RunSummary& s) {
  if (s.steps() == 0) return nullptr;
  return {{"steps", s.steps()},
          {"first_loss", s.first().loss},
          {"last_loss", s.last().loss},
          {"eval_loss", or_null(s.eval_loss())},
          {"best_eval_loss", or_null(s.best_eval_loss())},
          {"mean_step_ms", s.mean_step_ms()},
          {"mean_tokens_per_sec", s.mean_tokens_per_sec()},
          {"mean_comm_ms", s.mean_comm_ms()},
          {"mean_data_wait_ms", s.mean_data_wait_ms()},
          {"mean_mfu", or_null(s.mean_mfu())},
          {"peak_tokens_per_sec", s.peak_tokens_per_sec()},
          {"peak_mem_bytes", s.peak_mem_bytes()}};
}

/// The summary in the existing run file, for a run that has made no step since.
Json previous_summary(const std::string& path) {
  if (!path_exists(path)) return nullptr;
  const Json file = try_parse_json<Json>(read_file(path, kMaxRunFileBytes));
  return file.is_object() && file.contains("summary") ? file["summary"] : Json(nullptr);
}

Json run_json(const RunFile& run, const RunSummary& summary) {
  Json versions = Json::object(), workers = Json::array(), layout = Json::object();
  for (const auto& [name, version] : run.versions) versions[name] = version;
  for (const auto& [axis, size] : run.layout) layout[axis] = size;
  for (const RunFile::Worker& w : run.workers) {
    workers.push_back({{"rank", w.rank}, {"host", w.host}});
    if (!w.device.empty()) workers.back()["device"] = w.device;
    if (!w.place.empty()) workers.back()["place"] = w.place;
  }
  return {{"verdict", run.verdict},
          {"exit_code", or_null(run.exit_code)},
          {"reason", text_or_null(run.reason)},
          {"failure", run.failure ? failure_json(*run.failure) : Json(nullptr)},
          {"started_at", run.started_at},
          {"ended_at", text_or_null(run.ended_at)},
          {"launcher", {{"host", run.host}, {"pid", run.pid}}},
          {"detach_id", text_or_null(run.detach_id)},
          {"command", run.command},
          {"versions", versions},
          {"workers", workers},
          {"layout", layout},
          {"start_step", run.start_step},
          {"resumed_from", text_or_null(run.resumed_from)},
          {"finished_steps", or_null(run.finished_steps)},
          {"restarts", run.restarts},
          {"last_checkpoint", text_or_null(run.last_checkpoint)},
          {"summary", summary_json(summary)}};
}

}  // namespace

void write_run_file(const std::string& run_dir, const RunFile& run, const RunSummary& summary) {
  // Text from outside (a rank's last words) may be any bytes: what is not UTF-8 is replaced.
  const std::string path = run_dir + "/run.json";
  Json json = run_json(run, summary);
  if (summary.steps() == 0) json["summary"] = previous_summary(path);
  write_file_atomically(path, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace hgt
