#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hgtrain/checkpoint/safetensors.h"

#include "manifest.h"

namespace hgt {

/// A tensor of a file to be written. Several ranks may write a file together.
struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  DType dtype = DType::kF32;      ///< in the file: fp32, bf16 or fp16
  std::vector<TensorPart> parts;  ///< those elements that this rank writes, rounded to `dtype`

  std::int64_t bytes() const;
};

/// A block that this rank wrote: of at most 16 MiB, cut where a part begins or ends and at
/// multiples of 16 MiB of the tensor.
struct WrittenBlock {
  std::int64_t tensor = 0;  ///< its index
  HashedBlock block;
};

/// All bytes of the file before the data.
std::string safetensors_header(const std::vector<NamedTensor>& tensors);

/// Creates the file in its full size, with the header alone. Returns what the manifest says of it,
/// without the tensors' blocks.
ManifestFile create_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors);

/// Writes the parts into the file and fsyncs it. Throws Error(kGuard), which names the element, if
/// an element is not finite in the type in which it is written.
std::vector<WrittenBlock> write_parts(const std::string& path,
                                      const std::vector<NamedTensor>& tensors);

}  // namespace hgt
