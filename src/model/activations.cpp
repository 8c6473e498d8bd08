#include "activations.h"

#include <algorithm>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

Activations::Activations(const ModelConfig& model, const ActivationSizes& sizes, Device device)
    : layers_(model.num_hidden_layers) {
  for (const PlannedTensor& a : activations_of(model, sizes))
    entries_[a.name] = {Buffer(a.name, a.bytes(), device), a.copies, a.dtype, a.shared_layers};
}

const Activations::Entry& Activations::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    throw Error(ErrorKind::kInternal, fmt::format("no activation is called {}", name));
  return found->second;
}

Tensor Activations::of_layer(std::string_view name, std::int64_t slot, std::int64_t layer,
                             std::initializer_list<std::int64_t> shape) const {
  const Entry& of = entry(name);
  const std::int64_t own = slot * (layers_ - of.shared_layers) + layer - of.shared_layers;
  return get(name, layer < of.shared_layers ? of.copies - 1 : own, shape);
}

Tensor Activations::get(std::string_view name, std::int64_t copy,
                        std::initializer_list<std::int64_t> shape) const {
  const auto& [buffer, copies, dtype, shared] = entry(name);
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t space = buffer.bytes() / size / std::max<std::int64_t>(copies, 1);
  const Tensor out(buffer.as<std::byte>().data() + copy * space * size, shape, dtype,
                   buffer.device());
  if (copy < 0 || copy >= copies || out.numel() > space)
    throw Error(ErrorKind::kInternal,
                fmt::format("activation {}: copy {} of {}, {} elements in space for {}", name, copy,
                            copies, out.numel(), space));
  return out;
}

}  // namespace hgt
