#include "hgtrain/model/shared_gradients.h"

#include <algorithm>
#include <utility>

#include "hgtrain/arch/activations.h"
#include "hgtrain/ops/flat.h"

#include "tensor_group.h"

namespace hgt {
namespace {

/// What one takes of the packed memory, in floats.
std::int64_t packed_size(const PartialGradients& one) {
  return one.parts * one.elements.size();
}

}  // namespace

SharedGradients::SharedGradients(std::vector<PartialGradients> partial, Communicator& tensor,
                                 Stream stream)
    : tensor_(tensor),
      stream_(stream),
      partial_(std::move(partial)),
      packed_("gradients that tensor ranks sum", partial_gradient_bytes(partial_),
              stream.device()) {}

void SharedGradients::sum(Range elements, const Tensor& gradients) const {
  const auto of = [&](Range part) {
    return gradients.slice(0, part.begin - elements.begin, part.end - elements.begin);
  };
  for (Entries rest = within(elements); !rest.empty();) {
    const Entries chunk = first_that_fit(rest);
    rest = rest.subspan(chunk.size());
    std::int64_t used = 0;
    for_each(chunk, [&](const PartialGradients& one, const Tensor& all, const Tensor& own) {
      if (one.parts > 1) clear(all, stream_);
      stream_.copy(own.raw(), of(one.elements).raw(), own.bytes());
      used += all.numel();
    });
    TensorGroup(&tensor_).sum_rows(Tensor(packed_.data(), {used}, DType::kF32, stream_.device()));
    for_each(chunk, [&](const PartialGradients& one, const Tensor&, const Tensor& own) {
      stream_.copy(of(one.elements).raw(), own.raw(), own.bytes());
    });
  }
}

SharedGradients::Entries SharedGradients::within(Range elements) const {
  const auto first = std::ranges::find_if(
      partial_, [&](const PartialGradients& one) { return one.elements.begin >= elements.begin; });
  const auto last = std::find_if(first, partial_.end(), [&](const PartialGradients& one) {
    return one.elements.begin >= elements.end;
  });
  return {first, last};
}

SharedGradients::Entries SharedGradients::first_that_fit(Entries entries) const {
  std::int64_t room = packed_.bytes() / static_cast<std::int64_t>(sizeof(float));
  std::size_t count = 0;
  while (count < entries.size() && packed_size(entries[count]) <= room)
    room -= packed_size(entries[count++]);
  return entries.first(count);
}

/// Calls fn(one, its packed memory, this rank's part of that).
template <class Fn>
void SharedGradients::for_each(Entries entries, const Fn& fn) const {
  std::int64_t at = 0;
  for (const PartialGradients& one : entries) {
    const std::int64_t part = Split{.parts = one.parts}.part_of({tensor_.rank(), tensor_.size()});
    const Tensor all(packed_.as<float>().data() + at, {packed_size(one)}, DType::kF32,
                     stream_.device());
    const std::int64_t size = one.elements.size();
    fn(one, all, all.slice(0, part * size, (part + 1) * size));
    at += all.numel();
  }
}

}  // namespace hgt
