#include "sent_gradients.h"

#include <fmt/format.h>

#include "hgtrain/optim/round.h"

namespace hgt {

SentGradients::SentGradients(const RankPlan& plan, const UnitSlots& slots, DType dtype,
                             Device device)
    : slots_(slots) {
  if (dtype == DType::kF32) return;
  const auto bytes = static_cast<std::int64_t>(size_of(dtype));
  const std::string name = fmt::format("{} gradients to send", name_of(dtype));
  const Schedule& schedule = plan.schedule;
  for (const std::int64_t elements : schedule.gradient_slot_elements)
    memory_.emplace_back(name, elements * bytes, device);
  if (memory_.empty()) memory_.emplace_back(name, plan.elements() * bytes, device);
  std::int64_t before = 0;
  for (std::size_t unit = 0; unit < plan.shape.units.size(); ++unit) {
    const std::int64_t count = plan.shape.units[unit].elements.size();
    const bool shares = !schedule.gradient_slots.empty();
    const auto slot = static_cast<std::size_t>(shares ? schedule.gradient_slots[unit] : 0);
    std::byte* const at = static_cast<std::byte*>(memory_[slot].data()) + (shares ? 0 : before);
    copies_.emplace_back(at, std::initializer_list<std::int64_t>{count}, dtype, device);
    before += count * bytes;
  }
}

Tensor SentGradients::round(int unit, Stream stream) const {
  const Tensor gradients = slots_.gradients(unit);
  if (!are_copies()) return gradients;
  const Tensor& copy = copies_[static_cast<std::size_t>(unit)];
  round_to(gradients, copy, stream);
  return copy;
}

void SentGradients::take_back(int unit, Range elements, Stream stream) const {
  const auto part = [&](const Tensor& all) { return all.slice(0, elements.begin, elements.end); };
  round_to(part(copies_[static_cast<std::size_t>(unit)]), part(slots_.gradients(unit)), stream);
}

}  // namespace hgt
