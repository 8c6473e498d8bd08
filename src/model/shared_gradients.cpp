#include "hgtrain/model/shared_gradients.h"

#include <algorithm>

#include "hgtrain/ops/flat.h"

namespace hgt {
namespace {

bool is_computed_by_heads(Role role) {
  return role == Role::kQkvWeight || role == Role::kQkvBias || role == Role::kQueryNorm ||
         role == Role::kKeyNorm;
}

}  // namespace

std::vector<SharedGradients::Group> SharedGradients::groups_of(const ParameterTable& table,
                                                               int tensor_size) {
  std::vector<Group> out;
  for (const Parameter& p : table.parameters) {
    if (!is_computed_by_heads(p.role) || p.split.parts >= tensor_size) continue;
    const Range elements{p.offset, p.offset + p.numel};
    if (!out.empty() && out.back().elements.end == elements.begin &&
        out.back().parts == p.split.parts)
      out.back().elements.end = elements.end;
    else
      out.push_back({elements, p.split.parts});
  }
  return out;
}

std::int64_t SharedGradients::buffer_floats(const ParameterTable& table, int tensor_size) {
  std::int64_t most = 0;
  for (const auto& [elements, parts] : groups_of(table, tensor_size))
    if (parts > 1) most = std::max(most, parts * elements.size());
  return most;
}

SharedGradients::SharedGradients(const ParameterTable& table, Communicator& tensor, Stream stream)
    : tensor_(tensor),
      stream_(stream),
      groups_(groups_of(table, tensor.size())),
      all_parts_("gradients of all key/value heads", 4 * buffer_floats(table, tensor.size()),
                 stream.device()) {}

/// If not all ranks have the same part, each adds its own in a place of the part, and takes the sum
/// from there.
void SharedGradients::sum(Range elements, const Tensor& gradients) const {
  for (const auto& [group, parts] : groups_) {
    if (group.begin < elements.begin || group.end > elements.end) continue;
    const Tensor own = gradients.slice(0, group.begin - elements.begin, group.end - elements.begin);
    if (parts == 1) {
      tensor_.all_reduce_sum(own);
      continue;
    }
    const Tensor all(all_parts_.data(), {parts, own.numel()}, DType::kF32, stream_.device());
    const std::int64_t part = Split{.parts = parts}.part_of({tensor_.rank(), tensor_.size()});
    const Tensor of_part = all.slice(0, part, part + 1);
    clear(all.reshaped({all.numel()}), stream_);
    stream_.copy(of_part.raw(), own.raw(), own.bytes());
    tensor_.all_reduce_sum(all);
    stream_.copy(own.raw(), of_part.raw(), own.bytes());
  }
}

}  // namespace hgt
