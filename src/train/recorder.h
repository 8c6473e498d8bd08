#pragma once

#include <memory>
#include <optional>
#include <string>

#include "hgtrain/report/metrics_writer.h"
#include "hgtrain/train/run.h"

namespace hgt {

/// What a run leaves behind: metrics and checkpoints in the run folder, events up the channel. Rank
/// 0 has one that does so; those of the other ranks keep quiet.
class Recorder {
 public:
  Recorder(const Config& config, const RunOptions& options, const ParameterTable& table, int rank,
           ControlChannel& channel);

  /// The run goes on after `step` finished steps; metrics files are cut back to there.
  void started(const TrainingState& state, const std::string& checkpoint);
  /// A finished step; its elapsed_s is set here.
  void step(StepRecord record);
  /// Waits for the save before, which may hold a copy of the state. False where save() does
  /// nothing.
  bool prepare_save();
  /// Syncs the metrics and saves the state in the background; a step that is saved already is not
  /// saved again.
  void save(const TrainingState& state, const FlatState& flat,
            std::shared_ptr<const void> owner = nullptr);
  /// A line for the user, from rank 0.
  void notice(const std::string& text);
  /// Waits for the last save. Error(kData) where it failed.
  void finish();

 private:
  void report_saves(const std::optional<Error>& error);

  const RunOptions options_;
  ControlChannel& channel_;
  std::optional<MetricsWriter> metrics_;           ///< rank 0, once started
  std::int64_t started_ns_ = 0;                    ///< when it was
  std::unique_ptr<CheckpointWriter> checkpoints_;  ///< rank 0
  std::int64_t saving_step_ = -1;  ///< saved or about to be, not announced yet; -1: none
};

}  // namespace hgt
