#pragma once

#include <string>

#include "hgtrain/checkpoint/checkpoint.h"

namespace hgt {

/// Writes everything that a checkpoint consists of into an empty folder, the manifest last; all
/// fsynced but the folder's own names.
void write_checkpoint_files(const std::string& folder, const ModelConfig& model,
                            const ParameterTable& table, const CheckpointWriter::Options& options,
                            const TrainingState& state, const FlatState& flat);

}  // namespace hgt
