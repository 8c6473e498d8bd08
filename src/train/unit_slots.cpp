#include "hgtrain/train/unit_slots.h"

#include <numeric>

namespace hgt {
namespace {

/// The tensor of a block whose values this rank does not have: only a type and a device.
Tensor nothing(DType dtype, Device device) {
  return Tensor(nullptr, {0}, dtype, device);
}

}  // namespace

std::vector<Tensor> tensors_of_units(const StepShape& shape, const std::vector<int>& slots,
                                     const std::vector<std::int64_t>& slot_elements,
                                     const FlatTensor& flat, DType dtype, const std::string& name,
                                     Device device, std::vector<Buffer>& memory) {
  const std::size_t first = memory.size();
  for (const std::int64_t size : slot_elements)
    memory.emplace_back(name, size * static_cast<std::int64_t>(size_of(dtype)), device);
  std::vector<Tensor> out;
  for (std::size_t unit = 0; unit < shape.units.size(); ++unit) {
    const Slice slice = shape.units[unit].slice();
    if (slice.elements.size() == 0)
      out.push_back(nothing(dtype, device));
    else if (slots.empty())
      out.push_back(flat.at(slice));
    else
      out.emplace_back(memory[first + static_cast<std::size_t>(slots[unit])].data(),
                       std::initializer_list<std::int64_t>{slice.elements.size()}, dtype, device);
  }
  return out;
}

namespace {

std::vector<Tensor> tensors_by_block(const ParameterTable& table, const StepShape& shape,
                                     const std::vector<Tensor>& of_units) {
  std::vector<Tensor> out(static_cast<std::size_t>(table.num_blocks()),
                          nothing(of_units[0].dtype(), of_units[0].device()));
  for (std::size_t unit = 0; unit < shape.units.size(); ++unit) {
    const Range &blocks = shape.units[unit].blocks, &elements = shape.units[unit].elements;
    for (std::int64_t block = blocks.begin; elements.size() > 0 && block < blocks.end; ++block) {
      const Range range = table.block(static_cast<int>(block));
      out[static_cast<std::size_t>(block)] =
          of_units[unit].slice(0, range.begin - elements.begin, range.end - elements.begin);
    }
  }
  return out;
}

/// The token embedding in `blocks` or, if block 0 is another stage's, in new memory that `blocks`
/// gets for it.
Tensor tied_tokens(const ParameterTable& table, DType dtype, Device device, const char* name,
                   std::vector<Tensor>& blocks, std::vector<Buffer>& memory) {
  const std::int64_t count = table.find(0, Role::kTokens)->numel;
  if (!blocks[0]) {
    memory.emplace_back(name, count * static_cast<std::int64_t>(size_of(dtype)), device);
    blocks[0] = Tensor(memory.back().data(), {count}, dtype, device);
  }
  return blocks[0].slice(0, 0, count);
}

}  // namespace

UnitSlots::UnitSlots(const ParameterTable& table, const RankPlan& plan,
                     const FlatBuffers& buffers) {
  const StepShape& shape = plan.shape;
  const Schedule& schedule = plan.schedule;
  weights_ = tensors_of_units(shape, schedule.parameter_slots, schedule.parameter_slot_elements,
                              buffers.weights(), buffers.compute_dtype, "gathered weights",
                              buffers.device, memory_);
  std::vector<int> slots = schedule.gradient_slots;
  std::vector<std::int64_t> elements = schedule.gradient_slot_elements;
  if (slots.empty() && buffers.is_offloaded())  // each unit has a slot of its own
    for (const Unit& unit : shape.units) {
      slots.push_back(static_cast<int>(std::ssize(slots)));
      elements.push_back(unit.elements.size());
    }
  gradients_ = tensors_of_units(shape, slots, elements, buffers.gradient_values(), DType::kF32,
                                "gradients of blocks", buffers.device, memory_);
  block_weights_ = tensors_by_block(table, shape, weights_);
  block_gradients_ = tensors_by_block(table, shape, gradients_);
  if (!shape.is_tied_across()) return;
  const Device device = weights_[0].device();
  tied_weights_ = tied_tokens(table, weights_[0].dtype(), device, "copy of the embedding",
                              block_weights_, memory_);
  tied_gradients_ = tied_tokens(table, DType::kF32, device, "gradients of the copied embedding",
                                block_gradients_, memory_);
}

std::int64_t UnitSlots::bytes() const {
  return std::accumulate(
      memory_.begin(), memory_.end(), std::int64_t{0},
      [](std::int64_t sum, const Buffer& buffer) { return sum + buffer.bytes(); });
}

}  // namespace hgt
