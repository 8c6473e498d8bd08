#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hgtrain/base/dtype.h"
#include "hgtrain/base/file.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

// The safetensors format (github.com/huggingface/safetensors, "Format"): a little-endian u64 N, N
// bytes of JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ..., "__metadata__":
// {...}}, then the tensors, row-major, one after the other without gaps. Offsets count from the
// end of the header.

/// One tensor of a file.
struct TensorInfo {
  std::string name;
  std::string dtype_name;      ///< as the file spells it: "F32", "BF16", "I64", ...
  std::optional<DType> dtype;  ///< nullopt: a type that hgtrain does not read (BOOL, F8_E4M3, ...)
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  ///< bytes from the start of the data
  std::int64_t end = 0;

  std::int64_t numel() const;
};

/// "[768, 2304]"
std::string shape_text(const std::vector<std::int64_t>& shape);

/// Parses the JSON of a header before `data_bytes` bytes of tensors. Returns the tensors in the
/// order of their data. Throws Error(kData), which says what is wrong, unless the tensors fill the
/// data exactly, with unique names and sizes that match their shapes.
std::vector<TensorInfo> parse_safetensors_header(std::string_view json, std::int64_t data_bytes);

/// A safetensors file open for reading. Reads are thread-safe.
class SafetensorsFile {
 public:
  /// Throws Error(kData), which names the file, if its header is damaged or describes more data
  /// than the file holds.
  static SafetensorsFile open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  std::uint64_t header_hash() const { return header_hash_; }  ///< XXH3 of all bytes before the data

  /// Reads a tensor of tensors() (F32, BF16 or F16; others are an Error) into numel() contiguous
  /// elements of host memory. If their type is narrower, the values are rounded to it. Returns the
  /// XXH3 hash of the tensor's bytes in the file.
  std::uint64_t read(const TensorInfo& tensor, const Tensor& out) const;

 private:
  explicit SafetensorsFile(File file) : file_(std::move(file)) {}
  File file_;
  std::int64_t data_start_ = 0;
  std::uint64_t header_hash_ = 0;
  std::vector<TensorInfo> tensors_;
};

/// A tensor to write: contiguous values in host memory, which are rounded to `dtype`. Both types
/// are fp32, bf16 or fp16.
struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  Tensor values;
  DType dtype = DType::kF32;

  std::int64_t bytes() const { return values.numel() * static_cast<std::int64_t>(size_of(dtype)); }
};

/// Hashes of a written file, for the manifest.
struct WrittenTensors {
  std::int64_t bytes = 0;  ///< of the file
  std::uint64_t header_hash = 0;
  std::map<std::string, std::uint64_t> tensor_hashes;
};

/// Creates the file, writes the tensors in the given order, and fsyncs it. Throws Error(kGuard),
/// which names the element, if an element is not finite in the type in which it is written.
WrittenTensors write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors);

}  // namespace hgt
