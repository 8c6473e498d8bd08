#include "hgtrain/train/unit_slots.h"

namespace hgt {
namespace {

/// A tensor for each unit: its part of `flat` or, if that is sharded, of a new buffer for its slot.
std::vector<Tensor> tensors_of(const StepShape& shape, const std::vector<int>& slots,
                               const FlatTensor& flat, const char* name,
                               std::vector<Buffer>& memory) {
  const DType dtype = flat.values.dtype();
  const Device device = flat.values.device();
  const std::size_t first = memory.size();
  for (const std::int64_t size : slot_elements(shape, slots))
    memory.emplace_back(name, size * static_cast<std::int64_t>(size_of(dtype)), device);
  std::vector<Tensor> out;
  for (std::size_t unit = 0; unit < shape.units.size(); ++unit) {
    const Range elements = shape.units[unit].elements;
    if (slots.empty())
      out.push_back(flat.values.slice(0, elements.begin, elements.end));
    else
      out.emplace_back(memory[first + static_cast<std::size_t>(slots[unit])].data(),
                       std::initializer_list<std::int64_t>{elements.size()}, dtype, device);
  }
  return out;
}

std::vector<Tensor> tensors_by_block(const ParameterTable& table, const StepShape& shape,
                                     const std::vector<Tensor>& of_units) {
  std::vector<Tensor> out;
  for (std::size_t unit = 0; unit < shape.units.size(); ++unit) {
    const auto& [blocks, elements] = shape.units[unit];
    for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
      const Range range = table.block(static_cast<int>(block));
      out.push_back(
          of_units[unit].slice(0, range.begin - elements.begin, range.end - elements.begin));
    }
  }
  return out;
}

}  // namespace

UnitSlots::UnitSlots(const ParameterTable& table, const RankPlan& plan,
                     const FlatBuffers& buffers) {
  const StepShape& shape = plan.shape;
  const Schedule& schedule = plan.schedule;
  weights_ =
      tensors_of(shape, schedule.parameter_slots, buffers.weights(), "gathered weights", memory_);
  gradients_ = tensors_of(shape, schedule.gradient_slots, buffers.gradient_values(),
                          "gradients of blocks", memory_);
  block_weights_ = tensors_by_block(table, shape, weights_);
  block_gradients_ = tensors_by_block(table, shape, gradients_);
}

}  // namespace hgt
