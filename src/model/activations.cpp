#include "activations.h"

#include <algorithm>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

Activations::Activations(const ModelConfig& model, const ActivationSizes& sizes) {
  for (const PlannedTensor& a : activations_of(model, sizes)) {
    const std::int64_t bytes = a.numel() * a.copies * static_cast<std::int64_t>(sizeof(float));
    entries_[a.name] = {Buffer(a.name, bytes), a.copies};
  }
}

Tensor Activations::get(std::string_view name, std::int64_t copy,
                        std::initializer_list<std::int64_t> shape) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    throw Error(ErrorKind::kInternal, fmt::format("no activation is called {}", name));
  const auto& [buffer, copies] = found->second;
  const std::int64_t space =
      buffer.bytes() / static_cast<std::int64_t>(sizeof(float)) / std::max<std::int64_t>(copies, 1);
  const Tensor out(static_cast<float*>(buffer.data()) + copy * space, shape);
  if (copy < 0 || copy >= copies || out.numel() > space)
    throw Error(ErrorKind::kInternal,
                fmt::format("activation {}: copy {} of {}, {} elements in space for {}", name, copy,
                            copies, out.numel(), space));
  return out;
}

}  // namespace hgt
