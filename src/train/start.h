#pragma once

#include <string>
#include <vector>

#include "hgtrain/train/run.h"

namespace hgt {

/// Where a run begins.
struct Start {
  TrainingState state;
  std::string checkpoint;            ///< to resume from, "" if the run starts fresh
  std::vector<std::string> refused;  ///< what is wrong with newer checkpoints, which are damaged
  std::string notice;                ///< to the user, or ""
};

/// Dataset::fingerprint() and old_fingerprint() of the data.
struct DataFingerprint {
  std::uint64_t content = 0;
  std::uint64_t old = 0;
};

/// Fills the buffers. Every rank reads its slices of the checkpoint or of the initial weights, and
/// the ranks exchange what they all need; or every rank draws the weights itself, which is faster
/// than sending them. `--resume auto` takes the newest checkpoint that is whole. Error(kData), the
/// same on all ranks, if the named checkpoint is damaged, or with `auto` if every one is;
/// Error(kConfig) if it belongs to another job.
Start prepare_start(const Config& config, const RunOptions& options, const ParameterTable& table,
                    const RankPlan& plan, const FlatBuffers& buffers, const DataFingerprint& data,
                    ThreadPool& pool, const Groups& groups);

/// Hash of everything that determines the batches, which must not change when a run is resumed:
/// seeds, sizes, data by content, shares and validation split. (The model is compared key by key
/// when a checkpoint is loaded.)
std::uint64_t config_digest(const Config& config, std::uint64_t data_fingerprint);
/// The same as earlier versions made it, of Dataset::old_fingerprint.
std::uint64_t old_config_digest(const Config& config, std::uint64_t data_fingerprint);

}  // namespace hgt
