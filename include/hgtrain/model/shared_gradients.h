#pragma once

#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/comm/communicator.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"

namespace hgt {

/// The gradients that tensor ranks with the same parameters compute in parts, each from its own
/// heads: those of the gains of q/k norms and, if there are fewer key/value heads than ranks, of
/// the products that make keys and values. They must be summed over these ranks before they are
/// used.
class SharedGradients {
 public:
  /// `table` is that of a tensor rank. The communicator and the stream's device outlive this.
  SharedGradients(const ParameterTable& table, Communicator& tensor, Stream stream);
  /// Sums those of some whole blocks, whose gradients are given. All ranks of the group call it
  /// together.
  void sum(Range elements, const Tensor& gradients) const;

  /// The floats of memory that it needs.
  static std::int64_t buffer_floats(const ParameterTable& table, int tensor_size);

 private:
  /// Neighbours in the flat layout, of which there are `parts` different ones.
  struct Group {
    Range elements;
    std::int64_t parts;
  };
  static std::vector<Group> groups_of(const ParameterTable& table, int tensor_size);

  Communicator& tensor_;
  const Stream stream_;
  const std::vector<Group> groups_;
  const Buffer all_parts_;
};

}  // namespace hgt
