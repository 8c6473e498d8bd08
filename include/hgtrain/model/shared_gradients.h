#pragma once

#include <span>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/comm/communicator.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"

namespace hgt {

/// Sums the gradients that tensor ranks with the same parameters compute in parts. Before that they
/// are not complete.
class SharedGradients {
 public:
  /// `partial`: partial_gradients() of a tensor rank's table. The communicator and the stream's
  /// device outlive this.
  SharedGradients(std::vector<PartialGradients> partial, Communicator& tensor, Stream stream);
  /// Sums those within `elements`, whole blocks, whose gradients are given. All ranks of the group
  /// call it together.
  void sum(Range elements, const Tensor& gradients) const;

 private:
  using Entries = std::span<const PartialGradients>;
  Entries within(Range elements) const;
  Entries first_that_fit(Entries entries) const;
  template <class Fn>
  void for_each(Entries some, const Fn& fn) const;

  Communicator& tensor_;
  const Stream stream_;
  const std::vector<PartialGradients> partial_;
  const Buffer packed_;  ///< for each one `parts` copies, of which every rank fills its own
};

}  // namespace hgt
