#pragma once

#include <string>
#include <vector>

#include "hgtrain/checkpoint/checkpoint.h"

namespace hgt {

/// A file that is copied into every checkpoint, by its name in the folder ("a/b" lies in folder a).
struct CopiedFile {
  std::string name;
  std::string text;
};

/// What checkpoints have of the folders that a run came from.
struct SourceFiles {
  std::string config;             ///< text of the model's config.json, "" if it came from none
  std::vector<CopiedFile> files;  ///< all else that transformers reads, but for the weights
};

/// That of these folders, each of which may be "" or gone: the checkpoint that the run resumes
/// from, its tokenizer's folder, and the folder that its weights came from. The first that has a
/// file gives it. Files of a tokenizer come from folders with the same tokenizer.json alone: that
/// of the tokenizer's folder, else of the checkpoint, else of the model.
SourceFiles source_files(const std::string& checkpoint, const std::string& tokenizer,
                         const std::string& model);

/// Writes everything that a checkpoint consists of into an empty folder, the manifest last; all
/// fsynced but the folder's own names.
void write_checkpoint_files(const std::string& folder, const ModelConfig& model,
                            const ParameterTable& table, const CheckpointWriter::Options& options,
                            const SourceFiles& source, const TrainingState& state,
                            const FlatState& flat, CheckpointWriter::Reason reason);

}  // namespace hgt
