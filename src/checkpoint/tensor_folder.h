#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/checkpoint/safetensors.h"

#include "manifest.h"

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
void check_headers(const TensorFolder& source, const Manifest& manifest);

/// Where a tensor belongs.
struct Destination {
  std::vector<std::int64_t> shape;
  Tensor values;  ///< flat
};

/// The destination of each parameter in a flat buffer, by `prefix` and its name.
std::map<std::string, Destination> destinations_of(const ParameterTable& table, const Tensor& flat,
                                                   const std::string& prefix = "");

/// Reads the tensors of a folder into their destinations.
///   destinations  by name; each must occur once
///   canonical     maps a tensor's name in the files to its name in `destinations`, "" to skip it
///   manifest      nullptr, or the expected hashes: Error(kData) names file and tensor
///   misfit        kind of the Error that lists every missing, unexpected and misshaped tensor
void read_tensors(const TensorFolder& source,
                  const std::map<std::string, Destination>& destinations,
                  const std::function<std::string(const std::string&)>& canonical,
                  const Manifest* manifest, ErrorKind misfit);

/// Writes tensors into a folder as STEM.safetensors or, if they take more than `max_shard_bytes`,
/// as STEM-00001-of-0000N.safetensors and an index, and enters the files into the manifest.
void write_tensors(const std::string& folder, const std::string& stem,
                   const std::vector<NamedTensor>& tensors, std::int64_t max_shard_bytes,
                   Manifest& manifest);

}  // namespace hgt
