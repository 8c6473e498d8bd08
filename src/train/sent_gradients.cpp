#include "sent_gradients.h"

#include <fmt/format.h>

#include "hgtrain/optim/round.h"

namespace hgt {

SentGradients::SentGradients(const RankPlan& plan, const UnitSlots& slots, DType dtype,
                             Device device)
    : slots_(slots) {
  if (dtype == DType::kF32) return;
  const std::string name = fmt::format("{} gradients to send", name_of(dtype));
  const Schedule& schedule = plan.schedule;
  FlatTensor flat;
  if (schedule.gradient_slots.empty()) {
    const std::int64_t count = plan.elements();
    memory_.emplace_back(name, count * static_cast<std::int64_t>(size_of(dtype)), device);
    flat.values = Tensor(memory_.back().data(), {count}, dtype, device);
  }
  copies_ = tensors_of_units(plan.shape, schedule.gradient_slots, schedule.gradient_slot_elements,
                             flat, dtype, name, device, memory_);
}

Tensor SentGradients::round(int unit, Stream stream) const {
  const Tensor gradients = slots_.gradients(unit);
  if (!are_copies()) return gradients;
  round_to(gradients, copy(unit), stream);
  return copy(unit);
}

}  // namespace hgt
