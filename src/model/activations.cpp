#include "activations.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

Activations::Activations(const ModelConfig& model, std::vector<ActivationSizes> ranges,
                         Device device)
    : model_(model), ranges_(std::move(ranges)) {
  std::vector<ActivationSizes> largest = ranges_;
  for (ActivationSizes& sizes : largest)
    sizes.tensor_rank = 0;  // of tensor ranks: a smaller batch may give this one more rows
  for (PlannedTensor& plan : activations_of(model, largest)) {
    Buffer buffer(plan.name, plan.bytes(), device);
    const std::string name = plan.name;
    entries_.emplace(name, Entry{std::move(plan), std::move(buffer)});
  }
}

std::pair<std::size_t, std::int64_t> Activations::find_slot(std::int64_t slot) const {
  std::size_t range = 0;
  for (; range + 1 < ranges_.size() && slot >= ranges_[range].period(); ++range)
    slot -= ranges_[range].period();
  return {range, slot};
}

BatchActivations::BatchActivations(const Activations& memory, std::int64_t slot, std::int64_t batch,
                                   std::int64_t seq_length)
    : memory_(&memory), batch_(batch), seq_length_(seq_length) {
  std::tie(range_, slot_) = memory.find_slot(slot);
  ActivationSizes sizes = memory.ranges_[range_];
  sizes.batch = batch;
  sizes.seq_length = seq_length;
  for (PlannedTensor& plan : activations_of(memory.model_, {sizes}))
    shapes_.emplace(std::move(plan.name), std::move(plan.shape));
}

const Activations::Entry& BatchActivations::entry(std::string_view name) const {
  const auto found = memory_->entries_.find(name);
  if (found == memory_->entries_.end())
    throw Error(ErrorKind::kInternal, fmt::format("no activation is called {}", name));
  return found->second;
}

Tensor BatchActivations::of_layer(std::string_view name, std::int64_t layer) const {
  const auto& [plan, buffer] = entry(name);
  const std::int64_t copy = plan.copy_of(range_, slot_, layer);
  const std::int64_t bytes = plan.numel() * static_cast<std::int64_t>(size_of(plan.dtype));
  const Tensor out(buffer.as<std::byte>().data() + std::max<std::int64_t>(copy, 0) * bytes,
                   shapes_.find(plan.name)->second, plan.dtype, buffer.device());
  if (copy < 0 || copy >= plan.copies() || out.numel() > plan.numel())
    throw Error(ErrorKind::kInternal,
                fmt::format("activation {}: copy {} of {}, {} elements in space for {}", plan.name,
                            copy, plan.copies(), out.numel(), plan.numel()));
  return out;
}

}  // namespace hgt
