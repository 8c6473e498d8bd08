#include "hgtrain/model/shared_gradients.h"

#include "hgtrain/arch/memory.h"
#include "hgtrain/ops/flat.h"

namespace hgt {

SharedGradients::SharedGradients(const ParameterTable& table, Communicator& tensor, Stream stream)
    : tensor_(tensor),
      stream_(stream),
      shared_(head_gradients(table, tensor.size())),
      all_parts_("gradients of all key/value heads", head_gradient_bytes(shared_),
                 stream.device()) {}

/// If the ranks have different parts, each adds its own in a place for the part, and takes the sum
/// from there.
void SharedGradients::sum(Range elements, const Tensor& gradients) const {
  for (const auto& [shared, parts] : shared_) {
    if (shared.begin < elements.begin || shared.end > elements.end) continue;
    const Tensor own =
        gradients.slice(0, shared.begin - elements.begin, shared.end - elements.begin);
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
