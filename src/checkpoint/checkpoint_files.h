#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hgtrain/base/error.h"
#include "hgtrain/checkpoint/checkpoint.h"

#include "tensor_folder.h"

namespace hgt {

/// A file that is copied into every checkpoint, by its name in the folder ("a/b" lies in folder a).
struct CopiedFile {
  std::string name;
  std::string text;
};

/// The files that checkpoints take from the folders that a run started from.
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

/// The safetensors files of a checkpoint, by their stem: the same on every rank, except for the
/// parts that a rank writes.
using TensorFiles = std::vector<std::pair<std::string, std::vector<PlannedFile>>>;
TensorFiles plan_tensor_files(const ParameterTable& table, const FlatState& flat,
                              std::int64_t max_shard_bytes);

/// The first of three steps that write a checkpoint into an empty folder: creates everything but
/// the manifest; the planned files are created without their data. Returns the manifest so far.
CheckpointManifest create_checkpoint_files(const std::string& folder, const ModelConfig& model,
                                           const CheckpointWriter::Options& options,
                                           const SourceFiles& source, const TrainingState& state,
                                           DType weights_dtype, CheckpointWriter::Reason reason,
                                           const TensorFiles& files);

/// A range of the planned files, which are counted through all stems.
struct PlacedRange {
  std::int64_t file = 0;
  WrittenRange written;
};
/// The second step, in which all ranks write their parts of the planned files: fsyncs all of them.
/// `tensor` is the rank's tensor-parallel group, or null.
std::vector<PlacedRange> write_slices(const std::string& folder, const TensorFiles& files,
                                      Communicator* tensor);

/// The last step: writes the manifest, with the ranges of all ranks in any order. Then everything
/// is fsynced except the folder's own names.
void write_manifest(const std::string& folder, CheckpointManifest manifest,
                    const TensorFiles& files, std::vector<PlacedRange> ranges);

/// Throws `error`, which says how the checkpoint in `folder` is damaged, with the one before it in
/// the hint.
[[noreturn]] void throw_offering_before(const Error& error, const std::string& folder);

}  // namespace hgt
