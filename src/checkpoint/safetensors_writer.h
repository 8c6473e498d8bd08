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
  /// Those elements that this rank writes, rounded to `dtype`. If a tensor-parallel group puts them
  /// together, what this rank has.
  std::vector<TensorPart> parts;
  /// Where the part of each rank of the group lies; none: this rank writes its parts as they are,
  /// without placement.
  std::vector<Placement> of_ranks = {};

  std::int64_t bytes() const;
};

/// A block that this rank wrote: of at most 16 MiB, cut where elements begin or end that are
/// written together, and at multiples of 16 MiB of the tensor, or less.
struct WrittenBlock {
  std::int64_t tensor = 0;  ///< its index
  HashedBlock block;
};

/// All bytes of the file before the data.
std::string safetensors_header(const std::vector<NamedTensor>& tensors);

/// Creates the file in its full size, with the header alone. Returns what the manifest says of it,
/// without the tensors' blocks.
ManifestFile create_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors);

/// Writes parts into files. The ranks of a tensor-parallel group do so together: of what they put
/// together, each writes every block in turn.
class PartsWriter {
 public:
  /// `group`: null if this rank writes alone.
  explicit PartsWriter(Communicator* group = nullptr) : exchange_(group) {}
  /// Writes the parts into the file and fsyncs it. Returns what it wrote. After an error it writes
  /// nothing any more, but still gives the other ranks what they need.
  std::vector<WrittenBlock> write(const std::string& path, const std::vector<NamedTensor>& tensors);
  /// Throws the first error: kGuard, which names the element, if an element is not finite in the
  /// type in which it is written.
  void finish();

 private:
  template <class Action>
  void attempt(const Action& action);
  PartExchange exchange_;
  std::exception_ptr failed_;
};

}  // namespace hgt
