#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/optim/flat_tensor.h"
#include "hgtrain/parallel/rank_plan.h"
#include "hgtrain/tensor/tensor.h"
#include "hgtrain/train/flat_buffers.h"

namespace hgt {

/// A tensor for each unit: its part of `flat` or, if units have slots, of a new buffer for its
/// slot, which is added to `memory`. A unit without elements has no values.
std::vector<Tensor> tensors_of_units(const StepShape& shape, const std::vector<int>& slots,
                                     const std::vector<std::int64_t>& slot_elements,
                                     const FlatTensor& flat, DType dtype, const std::string& name,
                                     Device device, std::vector<Buffer>& memory);

/// Where the units' weights and gradients lie on the device while a step uses them: in the flat
/// buffers, if these have all of them there, or else in slots. Units take turns to use one, as the
/// plan's schedule says; without such a schedule each unit has a slot of its own.
class UnitSlots {
 public:
  /// The buffers must outlive this object.
  UnitSlots(const ParameterTable& table, const RankPlan& plan, const FlatBuffers& buffers);

  Tensor weights(int unit) const { return weights_[static_cast<std::size_t>(unit)]; }
  Tensor gradients(int unit) const { return gradients_[static_cast<std::size_t>(unit)]; }

  std::int64_t bytes() const;  ///< of all slots

  /// Each block's part of them, for Model::create. A block of another pipeline stage has none; but
  /// the last stage has the token embedding of block 0, if it is tied.
  const std::vector<Tensor>& block_weights() const { return block_weights_; }
  const std::vector<Tensor>& block_gradients() const { return block_gradients_; }

  /// The token embedding, and its gradients, on the first and the last stage of a pipeline with a
  /// tied embedding; elsewhere no tensor.
  Tensor tied_weights() const { return tied_weights_; }
  Tensor tied_gradients() const { return tied_gradients_; }

 private:
  std::vector<Buffer> memory_;
  std::vector<Tensor> weights_, gradients_;  ///< by unit
  std::vector<Tensor> block_weights_, block_gradients_;
  Tensor tied_weights_, tied_gradients_;
};

}  // namespace hgt
