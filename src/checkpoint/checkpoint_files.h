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

/// What checkpoints take from the folders that a run came from.
struct SourceFiles {
  std::string config;             ///< text of the model's config.json, "" if it came from none
  std::vector<CopiedFile> files;  ///< everything else that transformers reads, except the weights
};

/// Collects the files from these folders, each of which may be "" or gone: the checkpoint that the
/// run resumes from, its tokenizer's folder, and the folder that its weights came from. If several
/// folders have a file, the first one gives it. Tokenizer files come only from folders with the
/// same tokenizer.json: that of the tokenizer's folder, else of the checkpoint, else of the model.
SourceFiles source_files(const std::string& checkpoint, const std::string& tokenizer,
                         const std::string& model);

/// Writes everything that a checkpoint consists of into an empty folder, the manifest last. All is
/// fsynced except the folder's own names.
void write_checkpoint_files(const std::string& folder, const ModelConfig& model,
                            const ParameterTable& table, const CheckpointWriter::Options& options,
                            const SourceFiles& source, const TrainingState& state,
                            const FlatState& flat, CheckpointWriter::Reason reason);

}  // namespace hgt
