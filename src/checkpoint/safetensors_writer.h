#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "hgtrain/checkpoint/safetensors.h"

#include "manifest.h"
#include "part_exchange.h"

namespace hgt {

/// A tensor of a file to be written. Several ranks may write a file together.
struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  DType dtype = DType::kF32;  ///< in the file: fp32, bf16 or fp16
  /// The elements that this rank writes, rounded to `dtype`. If a tensor-parallel group assembles
  /// the tensor, the elements that this rank has.
  std::vector<TensorPart> parts;
  /// Where the part of each rank of the group lies in the tensor. Empty: this rank writes its parts
  /// itself, without the group.
  std::vector<Placement> of_ranks = {};

  std::int64_t bytes() const;
};

/// A range of a tensor that this rank wrote: at most 16 MiB, cut at multiples of 16 MiB or less,
/// and where a rank's part begins or ends.
struct WrittenRange {
  std::int64_t tensor = 0;  ///< its index
  HashedRange range;
};

/// All bytes of the file before the data.
std::string safetensors_header(const std::vector<NamedTensor>& tensors);

/// Creates the file in its full size, with only the header written. Returns its manifest entry,
/// without the tensors' ranges.
ManifestFile create_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors);

/// Writes parts into files. The ranks of a tensor-parallel group do so together, and take turns to
/// write the ranges that they assemble.
class PartsWriter {
 public:
  /// `group`: null if this rank writes alone.
  explicit PartsWriter(Communicator* group = nullptr) : exchange_(group) {}
  /// Writes the parts into the file and fsyncs it. Returns what it wrote. After an error it writes
  /// nothing more, but still sends the other ranks what they need.
  std::vector<WrittenRange> write(const std::string& path, const std::vector<NamedTensor>& tensors);
  /// Throws the first error: kCheck, which names the element, if an element is not finite in the
  /// type in which it is written.
  void finish();

 private:
  template <class Action>
  void attempt(const Action& action);
  PartExchange exchange_;
  std::exception_ptr failed_;
};

}  // namespace hgt
