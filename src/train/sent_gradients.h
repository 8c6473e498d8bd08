#pragma once

#include <vector>

#include "hgtrain/base/dtype.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/parallel/rank_plan.h"
#include "hgtrain/tensor/tensor.h"
#include "hgtrain/train/unit_slots.h"

namespace hgt {

/// What a rank contributes to the sums of its units' gradients: the gradients themselves, or a copy
/// rounded to bf16 or fp16. Units that share a slot for gradients also share one for copies.
class SentGradients {
 public:
  /// `dtype`: fp32 for the gradients themselves. The slots must outlive this object.
  SentGradients(const RankPlan& plan, const UnitSlots& slots, DType dtype, Device device);

  bool are_copies() const { return !copies_.empty(); }
  /// Queues: the unit's gradients are rounded. Returns what to sum.
  Tensor round(int unit, Stream stream) const;
  /// The unit's copy, in which its sum arrives.
  Tensor copy(int unit) const { return copies_[static_cast<std::size_t>(unit)]; }

 private:
  const UnitSlots& slots_;
  std::vector<Buffer> memory_;
  std::vector<Tensor> copies_;  ///< by unit
};

}  // namespace hgt
