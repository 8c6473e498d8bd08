#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hgtrain/checkpoint/safetensors.h"
#include "hgtrain/config/parallelism_config.h"
#include "hgtrain/config/run_checkpoints.h"

namespace hgt {

/// One file of a checkpoint, described when it was written.
struct ManifestFile {
  std::int64_t bytes = 0;
  std::uint64_t hash = 0;  ///< XXH3 of the whole file, or of the header if it has tensors
  std::map<std::string, std::vector<HashedRange>> tensors;  ///< of a safetensors file
};

/// The contents of a checkpoint folder. The manifest is written last, and a folder without one is
/// no checkpoint. It ends with a hash of its own text.
struct CheckpointManifest {
  std::int64_t step = 0;
  ParallelismConfig layout;  ///< the layout that wrote it; any layout may read it
  std::map<std::string, ManifestFile> files;
  bool only_best = false;  ///< CheckpointWriter::Reason::kBest
};

std::string manifest_text(const CheckpointManifest& manifest);

/// The end of a manifest: the hash of all the text before it.
std::string manifest_seal(std::string_view body);

/// Error(kData) if the text is not a complete text of manifest_text(), in this version or the one
/// before, in which each tensor has one range.
CheckpointManifest parse_manifest(std::string_view text);

/// Reads the manifest of a folder and checks that every file is there in its size and that the
/// files without tensors have their hash. Error(kData) names the file.
/// `stem`: "" or the only tensors that are needed, "model" or "ema"; then other files with tensors
/// and the counters of the training may be missing.
CheckpointManifest read_manifest(const std::string& folder, std::string_view stem = "");
/// The same, but does not check the files.
CheckpointManifest read_manifest_file(const std::string& folder);

/// The hash as a manifest spells it: 16 hex digits.
std::string hash_text(std::uint64_t hash);

/// Creates a file, fsyncs it, and enters it into the manifest.
void write_listed_file(CheckpointManifest& manifest, const std::string& folder,
                       const std::string& name, std::string_view text);

}  // namespace hgt
