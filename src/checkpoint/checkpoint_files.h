#pragma once

#include <string>
#include <vector>

#include "hgtrain/checkpoint/checkpoint.h"

namespace hgt {

/// A file that is copied into every checkpoint.
struct CopiedFile {
  std::string name;
  std::string text;
};

/// The tokenizer files of a folder; none of "".
std::vector<CopiedFile> tokenizer_files(const std::string& folder);

/// Writes everything that a checkpoint consists of into an empty folder, the manifest last; all
/// fsynced but the folder's own names.
void write_checkpoint_files(const std::string& folder, const ModelConfig& model,
                            const ParameterTable& table, const CheckpointWriter::Options& options,
                            const std::vector<CopiedFile>& tokenizer, const TrainingState& state,
                            const FlatState& flat);

}  // namespace hgt
