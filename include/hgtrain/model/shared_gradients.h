#pragma once

#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/comm/communicator.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"

namespace hgt {

/// Sums the gradients that tensor ranks with the same parameters compute in parts: head_gradients
/// (arch/model_spec.h). Only then are they those of the parameters.
class SharedGradients {
 public:
  /// `table` is that of a tensor rank. The communicator and the stream's device outlive this.
  SharedGradients(const ParameterTable& table, Communicator& tensor, Stream stream);
  /// Sums those within `elements`, whole blocks, whose gradients are given. All ranks of the group
  /// call it together.
  void sum(Range elements, const Tensor& gradients) const;

 private:
  Communicator& tensor_;
  const Stream stream_;
  const std::vector<HeadGradients> shared_;
  const Buffer all_parts_;
};

}  // namespace hgt
