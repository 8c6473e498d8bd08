#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/checkpoint/safetensors.h"
#include "hgtrain/optim/flat_tensor.h"

#include "manifest.h"
#include "safetensors_writer.h"

namespace hgt {

/// Prefix of the tensors in optimizer.safetensors that are parameters in full precision.
inline constexpr const char* kMasterPrefix = "master.";

/// The safetensors files of one kind in a folder: STEM.safetensors, or the files that
/// STEM.safetensors.index.json lists. Stems are "model" (as HF has it), "optimizer" and "ema".
class TensorFolder {
 public:
  /// Error(kData) if there are none, if one is damaged, or if index and files do not agree.
  static TensorFolder open(const std::string& folder, const std::string& stem);

  /// Calls `visit` for every tensor, file by file, in the order they lie.
  void for_each(const std::function<void(const SafetensorsFile&, const TensorInfo&)>& visit) const;

  const std::string& folder() const { return folder_; }
  const std::vector<SafetensorsFile>& files() const { return files_; }

 private:
  std::string folder_;
  std::vector<SafetensorsFile> files_;
};

/// Error(kData) if a file is not in the manifest, or has another header.
void check_headers(const TensorFolder& source, const CheckpointManifest& manifest);

/// The shape that a tensor must have, and where its elements go.
struct Destination {
  std::vector<std::int64_t> shape;
  std::vector<TensorPart> parts;  ///< those of its elements that are wanted
};

/// The elements of a tensor rank's part of a parameter that are in the slices.
std::vector<TensorPart> parts_of(const Parameter& parameter, const FlatTensor& flat,
                                 std::span<const Slice> slices, TensorRank tensor);

/// The destination of each parameter in a flat buffer, by `prefix` and its name.
std::map<std::string, Destination> destinations_of(const ParameterTable& table,
                                                   const FlatTensor& flat,
                                                   std::span<const Slice> slices, TensorRank tensor,
                                                   const std::string& prefix = "");

/// The tensors of a folder that are to be read, and their destinations.
class TensorReads {
 public:
  ///   destinations  by name; each must occur once
  ///   canonical     maps a tensor's name in the files to its name in `destinations`, "" to skip it
  ///   manifest      nullptr, or the expected hashes: Error(kData) names file and tensor; outlives
  ///                 this object
  ///   misfit        kind of the Error that lists every missing or unexpected tensor, and each of a
  ///   wrong shape
  TensorReads(TensorFolder source, std::map<std::string, Destination> destinations,
              const std::function<std::string(const std::string&)>& canonical,
              const CheckpointManifest* manifest, ErrorKind misfit);

  const TensorFolder& source() const { return source_; }
  /// See SafetensorsFile::read.
  void read(bool once, const std::function<void(const TensorInfo&)>& done = {}) const;

 private:
  TensorFolder source_;
  std::map<std::string, Destination> destinations_;
  std::vector<std::vector<TensorRequest>> of_files_;
};

/// A safetensors file to be written.
struct PlannedFile {
  std::string name;
  std::vector<NamedTensor> tensors;
};

/// The files of the tensors: STEM.safetensors or, if they take more than `max_shard_bytes`,
/// STEM-00001-of-0000N.safetensors, which need an index.
std::vector<PlannedFile> plan_files(const std::string& stem, std::vector<NamedTensor> tensors,
                                    std::int64_t max_shard_bytes);

/// Creates the planned files, with their headers alone, and their index if there are several, and
/// enters them into the manifest.
void create_files(const std::string& folder, const std::string& stem,
                  const std::vector<PlannedFile>& files, CheckpointManifest& manifest);

}  // namespace hgt
