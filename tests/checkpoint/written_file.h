#pragma once

#include <string>
#include <vector>

#include "hgtrain/checkpoint/safetensors.h"

#include "../../src/checkpoint/safetensors_writer.h"

namespace hgt {

/// A whole tensor of a test.
struct WholeTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  Tensor values;
  DType dtype = DType::kF32;
};

/// Writes the parts that one rank has alone.
inline std::vector<WrittenRange> write_parts(const std::string& path,
                                             const std::vector<NamedTensor>& tensors) {
  PartsWriter writer;
  std::vector<WrittenRange> written = writer.write(path, tensors);
  writer.finish();
  return written;
}

/// Writes a file as one rank.
inline std::vector<WrittenRange> write_safetensors(const std::string& path,
                                                   const std::vector<WholeTensor>& tensors) {
  std::vector<NamedTensor> named;
  for (const WholeTensor& tensor : tensors)
    named.push_back(
        {tensor.name, tensor.shape, tensor.dtype, {{{0, tensor.values.numel()}, tensor.values}}});
  create_safetensors(path, named);
  return write_parts(path, named);
}

/// Reads a whole tensor, with its ranges checked if they are given.
inline std::vector<float> read_whole(const SafetensorsFile& file, const TensorInfo& tensor,
                                     std::span<const HashedRange> ranges = {}) {
  std::vector<float> values(static_cast<std::size_t>(tensor.numel()));
  const TensorPart all{{0, tensor.numel()}, Tensor(values.data(), {tensor.numel()})};
  const std::vector<HashedRange> expected(ranges.begin(), ranges.end());
  file.read({{&tensor, std::span(&all, 1), ranges.empty() ? nullptr : &expected}});
  return values;
}

}  // namespace hgt
