#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hgtrain/report/run_summary.h"

namespace hgt {

/// The largest run.json that is read.
inline constexpr std::int64_t kMaxRunFileBytes = 16 << 20;

/// RUN_DIR/run.json: what a run was and what became of it (docs/run-folder.md).
struct RunFile {
  struct Worker {
    std::int64_t rank = 0;
    std::string host;
    std::string device = {};  ///< "cpu, 1 thread", "cuda:0 NVIDIA H100"; "": that of a program
    /// In the layout: "stage 1, tensor rank 0"; "": it has the whole model.
    std::string place = {};
  };
  /// What is known of the first rank that failed.
  struct Failure {
    std::int64_t rank = -1;  ///< -1: the launcher itself
    std::string message;
    std::string hint;
    std::vector<std::string> context;
    std::string log;  ///< path of the rank's log
  };

  std::string verdict = "running";  ///< running, done, stopped, failed
  std::optional<int> exit_code;     ///< of the command, once it ended
  std::string reason;               ///< a sentence
  std::optional<Failure> failure;
  std::string host;       ///< of the launcher
  std::int64_t pid = 0;   ///< of the launcher
  std::string detach_id;  ///< random, of a run that --detach has started on a host; else ""
  std::vector<std::string> command;                           ///< argv; it holds no secrets
  std::vector<std::pair<std::string, std::string>> versions;  ///< "hgtrain" -> "0.1.0"
  std::vector<Worker> workers;
  std::vector<std::pair<std::string, std::int64_t>> layout;  ///< "data" -> 2
  std::string started_at;                                    ///< utc_now()
  std::string ended_at;                                      ///< "" while running
  std::int64_t start_step = 0;                               ///< finished steps at the start
  std::string resumed_from;                                  ///< checkpoint folder, or ""
  std::optional<std::int64_t> finished_steps = {};  ///< none: a program that is not hgtrain's own
  std::int64_t restarts = 0;
  std::string last_checkpoint;  ///< folder, or ""
};

/// Replaces RUN_DIR/run.json as a whole (temporary file, fsync, rename), so that a reader sees the
/// old or the new one. Averages and peaks come from `summary`; while that has no step, those of the
/// old file are kept. Throws Error(kData) if the file cannot be written.
void write_run_file(const std::string& run_dir, const RunFile& run, const RunSummary& summary);

/// The wall clock as "2026-11-21T10:41:03Z".
std::string utc_now();

}  // namespace hgt
