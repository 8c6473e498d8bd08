#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hgtrain/checkpoint/run_copier.h"
#include "hgtrain/report/metrics_writer.h"
#include "hgtrain/train/run.h"

namespace hgt {

/// Records a run: metrics and checkpoints in the run folder, events on the control channel. Every
/// rank has a recorder: they write checkpoints together, and rank 0's does the rest.
class Recorder {
 public:
  /// The ranks of the world of `savers` write checkpoints together.
  Recorder(const Config& config, const RunOptions& options, const ParameterTable& table,
           const Groups& savers, ControlChannel& channel);

  /// Call it if the run starts from `checkpoint` ("": none) and will make steps. From now on the
  /// run folder holds its branch, and the metrics files end at the step it starts from.
  /// `checkpoint` and those of RunOptions::needed_steps are kept for as long as the run
  /// `may_go_back` to them (if empty: never).
  void begin(const TrainingState& state, const std::string& checkpoint,
             const std::function<bool()>& may_go_back = {});
  /// Reports what the run starts from; `begins`: whether it will make steps.
  void started(const TrainingState& state, const std::string& checkpoint, bool begins);
  /// A finished step; its elapsed_s is set here.
  void step(StepRecord record);
  /// Waits for the previous save, which may hold a copy of the state.
  void prepare_save();
  /// Syncs the metrics and saves the state in the background, together with the other ranks; a step
  /// that is saved already is not saved again. Error(kCheck) here or later if it has a number that
  /// is not finite.
  void save(const TrainingState& state, const FlatState& flat,
            std::shared_ptr<const void> owner = nullptr,
            CheckpointWriter::Reason reason = CheckpointWriter::Reason::kDue);
  /// A line for the user, from rank 0.
  void notice(const std::string& text);
  /// Waits for the last save, and reports missing metrics. Rank 0 throws the Error of a save that
  /// failed, and if the run has come to its end, that of its copy.
  void finish(bool is_stopped);

 private:
  RunCopy open_copy(const std::string& folder) const;
  /// Names the checkpoints that are not of the run's branch.
  void report_superseded();
  /// Training continues without a checkpoint that could not be written; a bad state ends it. All
  /// ranks have the same error, which rank 0 reports.
  void report(const std::optional<Error>& error);

  const Config& config_;
  const RunOptions options_;
  const ParameterTable& table_;
  const Groups savers_;
  const bool records_;  ///< rank 0
  ControlChannel& channel_;
  std::string metrics_problem_;  ///< why the last step's metrics were not written, "" if they were
  std::optional<MetricsWriter> metrics_;           ///< rank 0, once begun
  std::int64_t started_ns_ = 0;                    ///< when it was
  std::optional<RunCopier> copier_;                ///< rank 0, once begun, if there is to be a copy
  std::unique_ptr<CheckpointWriter> checkpoints_;  ///< once begun; it ends before the others
};

}  // namespace hgt
