#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hgtrain/arch/split.h"
#include "hgtrain/base/dtype.h"
#include "hgtrain/base/file.h"
#include "hgtrain/parallel/range.h"
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

/// Elements of a tensor rank's part of a tensor, by default of the tensor itself, and where in host
/// memory they are or belong: contiguous fp32, bf16 or fp16.
struct TensorPart {
  Range elements;
  Tensor values;
  Placement placement = {};

  /// Calls visit(run) for those elements that are within `whole` of the tensor.
  template <class Visit>
  void for_each_run(Range whole, const Visit& visit) const {
    placement.for_each_run(elements, whole, visit);
  }
  /// The same as parts of the tensor itself, one for each run.
  std::vector<TensorPart> runs() const;
};

/// A range of a tensor's bytes in a file, which ends where the next one begins or with the tensor.
struct HashedRange {
  std::int64_t begin = 0;
  std::uint64_t hash = 0;  ///< XXH3
  bool operator==(const HashedRange&) const = default;
};

/// The parts of a tensor to read. If ranges are given, their hashes are checked.
struct TensorRequest {
  const TensorInfo* tensor = nullptr;
  std::span<const TensorPart> parts;
  const std::vector<HashedRange>* ranges = nullptr;
};

/// A safetensors file open for reading. Reads are thread-safe.
class SafetensorsFile {
 public:
  /// Throws Error(kData), which names the file, if its header is damaged or describes more data
  /// than the file holds.
  static SafetensorsFile open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  std::uint64_t header_hash() const { return header_hash_; }  ///< XXH3 of all bytes before the data

  /// Reads parts of tensors of tensors() (F32, BF16 or F16; others are an Error) in large pieces.
  /// If the type of `values` is narrower, they are rounded to it. If ranges are given, every one
  /// that has elements of a part is read as a whole; Error(kData) names file and tensor if one does
  /// not have its hash, or if these are no ranges of the tensor. `once`: nothing will read these
  /// bytes again soon, so they go past the page cache. `done` is called with each tensor that is
  /// wanted once its parts are there, in the order in which the tensors lie in the file.
  void read(std::vector<TensorRequest> wanted, bool once = false,
            const std::function<void(const TensorInfo&)>& done = {}) const;

 private:
  explicit SafetensorsFile(File file) : file_(std::move(file)) {}
  struct Piece;
  std::vector<Piece> pieces_of(const TensorRequest& wanted) const;
  File file_;
  std::int64_t data_start_ = 0;
  std::uint64_t header_hash_ = 0;
  std::vector<TensorInfo> tensors_;
};

}  // namespace hgt
