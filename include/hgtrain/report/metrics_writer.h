#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hgtrain/base/file.h"
#include "hgtrain/report/step_record.h"

namespace hgt {

/// Which records of an existing metrics.jsonl belong to another run or branch.
struct OtherRecords {
  bool until_resumed_step = false;  ///< the run starts from a checkpoint of another run or branch
  /// The run leaves a branch that has checkpoints after that step.
  bool after_resumed_step = false;
};

/// Writes the metrics of a run: RUN_DIR/metrics.jsonl, one StepRecord per line, and metrics.csv,
/// the same as a table, in which a cell is empty if its number is unknown or not finite.
///
/// A line is passed to the operating system in one write(2) before write() returns, so no line is
/// lost if the process dies; a power cut may lose the lines since the last sync(). A run folder has
/// one writer, on one thread.
class MetricsWriter {
 public:
  /// Lines that cannot be written are kept up to this size, and lost from then on.
  static constexpr std::size_t kMaxPendingBytes = 1 << 20;

  /// Opens both files to continue after `resumed_step` (0: from the start). metrics.jsonl keeps the
  /// run's own records of ascending steps up to `resumed_step`, so that each step occurs once, also
  /// after a crash in the middle of a line; metrics.csv is rewritten from it. If metrics.jsonl has
  /// records of `others`, or lines that are not records, or cannot be read to its end, it is
  /// renamed, and the records to keep that could be read are copied to a new file; a full disk
  /// delays that like a write(). Records after `resumed_step` that are not of `others` are cut off:
  /// the run will make these steps again. Throws Error(kData) if a file cannot be opened, renamed
  /// or truncated.
  MetricsWriter(const std::string& run_dir, std::int64_t resumed_step, OtherRecords others = {});

  /// Why metrics.jsonl was renamed, and its new name; nullopt if it was not.
  const std::optional<std::string>& kept_aside() const { return kept_aside_; }
  /// The run's own steps up to the resumed one that metrics.jsonl lacks, as a sentence.
  const std::optional<std::string>& missing() const { return missing_; }
  /// Seconds of training up to the last record kept; 0 if there is none.
  double elapsed_s() const { return elapsed_s_; }

  /// Appends a record to both files. Returns nullopt, or why the record is not in them yet (the
  /// disk is full): it is kept, and written with a later one. If records were lost meanwhile, the
  /// first write() that succeeds returns how many.
  std::optional<std::string> write(const StepRecord& record);
  /// Writes what is left. Returns nullopt, or how many lines the files lack.
  std::optional<std::string> finish();
  /// Syncs metrics.jsonl and its name to the disk: what was written survives a power cut. Returns
  /// nullopt, or why that failed. metrics.csv is rewritten from it at the next start.
  std::optional<std::string> sync();

 private:
  /// A file to append to, and what it still lacks.
  struct Output {
    File file;
    std::string pending{};  ///< may begin in the middle of a line
    std::int64_t lost = 0;  ///< lines dropped because `pending` would be too large
    void add(const std::string& line);
    void copy(const std::string& line);  ///< add() for many lines: flushes if they become large
    std::optional<std::string> flush();
    std::optional<std::string> write(const std::string& line);
    std::optional<std::string> finish();
  };
  void restore(std::int64_t resumed_step, OtherRecords others);
  void note_gap(std::int64_t before, std::int64_t after);
  std::string set_aside(const char* as, std::int64_t last_own_step);

  Output jsonl_;
  Output csv_;
  std::optional<std::string> kept_aside_, missing_;
  double elapsed_s_ = 0;
};

}  // namespace hgt
