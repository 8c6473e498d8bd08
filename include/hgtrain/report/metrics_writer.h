#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hgtrain/base/file.h"
#include "hgtrain/report/step_record.h"

namespace hgt {

/// The metrics of a run: RUN_DIR/metrics.jsonl, one StepRecord a line, and metrics.csv, the same as
/// a table (an empty cell where a number is unknown or not finite).
///
/// A line is handed to the operating system by one write() before write() returns, so the death of
/// the process loses none; a power cut may take those since the last sync(). One writer a run
/// folder, on one thread.
class MetricsWriter {
 public:
  /// Opens both files to go on after `resumed_step` (0: from the start). metrics.jsonl keeps its
  /// records of ascending steps up to `resumed_step`, so that each step stands once also after a
  /// crash in the middle of a line; metrics.csv is written anew from it. If metrics.jsonl has lines
  /// that are not records, or cannot be read to its end, it is kept aside under another name, and a
  /// new one gets the records that could be read. Throws Error(kData) if a file cannot be opened,
  /// renamed or written.
  MetricsWriter(const std::string& run_dir, std::int64_t resumed_step);

  /// What was wrong with metrics.jsonl, and where the old one is kept.
  const std::optional<std::string>& damage() const { return damage_; }
  /// Seconds of training up to the last record kept; 0 if there is none.
  double elapsed_s() const { return elapsed_s_; }

  /// Appends a record to both files. Nullopt, or why the record is not in them yet (the disk is
  /// full): it is kept, and written with a later one.
  std::optional<std::string> write(const StepRecord& record);
  /// Puts metrics.jsonl and its name on the disk: what was written survives a power cut. Nullopt,
  /// or why it is not there. metrics.csv is made anew from it at the next start.
  std::optional<std::string> sync();

 private:
  /// A file to append to, and what it still lacks.
  struct Output {
    File file;
    std::string pending{};
    std::optional<std::string> flush();
  };
  void restore(std::int64_t resumed_step);
  void set_aside(std::int64_t resumed_step, const std::string& why);

  Output jsonl_;
  Output csv_;
  std::optional<std::string> damage_;
  double elapsed_s_ = 0;
};

}  // namespace hgt
