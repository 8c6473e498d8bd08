#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/checkpoint/safetensors.h"

#include "manifest.h"

namespace hgt {

/// Of the tensors of optimizer.safetensors that are parameters in full precision.
inline constexpr const char* kMasterPrefix = "master.";

/// The safetensors files of one kind in a folder: STEM.safetensors, or the files that
/// STEM.safetensors.index.json lists. Stems are "model" (as HF has it), "optimizer" and "ema".
class TensorFolder {
 public:
  /// Error(kData) where there are none, or one is damaged, or index and files do not agree.
  static TensorFolder open(const std::string& folder, const std::string& stem);

  /// Calls `visit` for every tensor, file by file, in the order they lie.
  void for_each(const std::function<void(const SafetensorsFile&, const TensorInfo&)>& visit) const;

  const std::string& folder() const { return folder_; }
  const std::vector<SafetensorsFile>& files() const { return files_; }

 private:
  std::string folder_;
  std::vector<SafetensorsFile> files_;
};

/// Error(kData) where a file is not in the manifest, or has another header.
void check_headers(const TensorFolder& source, const Manifest& manifest);

/// Where a tensor belongs.
struct Destination {
  std::vector<std::int64_t> shape;
  Tensor values;  ///< flat
};

/// That of each parameter, by its name behind `prefix`, in a flat buffer.
std::map<std::string, Destination> destinations_of(const ParameterTable& table, const Tensor& flat,
                                                   const std::string& prefix = "");

/// Reads the tensors of a folder to where they belong.
///   destinations  by name; each must be met once
///   canonical     the name in `destinations` that a tensor of the files goes by, "" to pass it
///   over manifest      nullptr, or what the bytes must hash to: Error(kData) names file and tensor
///   misfit        kind of the Error that lists every missing, unexpected and misshaped tensor
void read_tensors(const TensorFolder& source,
                  const std::map<std::string, Destination>& destinations,
                  const std::function<std::string(const std::string&)>& canonical,
                  const Manifest* manifest, ErrorKind misfit);

/// Writes tensors into a folder as STEM.safetensors or, where they take more than
/// `max_shard_bytes`, as STEM-00001-of-0000N.safetensors and an index, and enters the files into
/// the manifest.
void write_tensors(const std::string& folder, const std::string& stem,
                   const std::vector<NamedTensor>& tensors, std::int64_t max_shard_bytes,
                   Manifest& manifest);

}  // namespace hgt
