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
  /// Lines that cannot be written are kept up to this size, and lost from then on.
  static constexpr std::size_t kMaxPendingBytes = 1 << 20;

  /// Opens both files to go on after `resumed_step` (0: from the start). metrics.jsonl keeps its
  /// records of ascending steps up to `resumed_step`, so that each step stands once also after a
  /// crash in the middle of a line; metrics.csv is written anew from it. `from_elsewhere`: the run
  /// starts from a checkpoint of another run or branch, so that those records are not its own, and
  /// none is kept. If metrics.jsonl has such records, or lines that are not records, or cannot be
  /// read to its end, it is kept aside under another name, and a new one gets what is to be kept
  /// and could be read. Throws Error(kData) if a file cannot be opened, renamed or written.
  MetricsWriter(const std::string& run_dir, std::int64_t resumed_step, bool from_elsewhere = false);

  /// Why metrics.jsonl was kept aside, and where.
  const std::optional<std::string>& kept_aside() const { return kept_aside_; }
  /// Seconds of training up to the last record kept; 0 if there is none.
  double elapsed_s() const { return elapsed_s_; }

  /// Appends a record to both files. Nullopt, or why the record is not in them yet (the disk is
  /// full): it is kept, and written with a later one. Of records that were lost meanwhile the first
  /// write() that succeeds says how many.
  std::optional<std::string> write(const StepRecord& record);
  /// Writes what is left. Nullopt, or how many lines the files lack.
  std::optional<std::string> finish();
  /// Puts metrics.jsonl and its name on the disk: what was written survives a power cut. Nullopt,
  /// or why it is not there. metrics.csv is made anew from it at the next start.
  std::optional<std::string> sync();

 private:
  /// A file to append to, and what it still lacks.
  struct Output {
    File file;
    std::string pending{};  ///< may begin in the middle of a line
    std::int64_t lost = 0;  ///< lines that it would have grown too large by
    void add(const std::string& line);
    std::optional<std::string> flush();
    std::optional<std::string> write(const std::string& line);
    std::optional<std::string> finish();
  };
  void leave_others(std::int64_t resumed_step);
  void restore(std::int64_t resumed_step);
  std::string set_aside(const char* as);

  Output jsonl_;
  Output csv_;
  std::optional<std::string> kept_aside_;
  double elapsed_s_ = 0;
};

}  // namespace hgt
