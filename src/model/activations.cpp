#include "activations.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

Activations::Activations(const ModelConfig& model, const ActivationSizes& sizes, Device device)
    : model_(model), sizes_(sizes) {
  ActivationSizes largest = sizes;  // of tensor ranks: a smaller batch may give this one more rows
  largest.tensor_rank = 0;
  for (PlannedTensor& plan : activations_of(model, largest)) {
    Buffer buffer(plan.name, plan.bytes(), device);
    const std::string name = plan.name;
    entries_.emplace(name, Entry{std::move(plan), std::move(buffer)});
  }
}

BatchActivations::BatchActivations(const Activations& memory, std::int64_t slot, std::int64_t batch,
                                   std::int64_t seq_length)
    : memory_(&memory), slot_(slot), batch_(batch), seq_length_(seq_length) {
  ActivationSizes sizes = memory.sizes_;
  sizes.batch = batch;
  sizes.seq_length = seq_length;
  for (PlannedTensor& plan : activations_of(memory.model_, sizes))
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
  const std::int64_t copy = plan.copy_of(slot_, layer);
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
