#include "hgtrain/base/trace.h"
#include "hgtrain/checkpoint/checkpoint.h"

namespace hgt {

FlatState copy_slices(
    const FlatState& flat, std::vector<Buffer>& memory,
    const std::function<void(void* to, const void* from, std::size_t bytes)>& copy) {
  const Span span = Span::rare("copy for the checkpoint");
  const std::int64_t count =
      flat.slices.empty() ? 0 : flat.slices.back().in_shard + flat.slices.back().elements.size();
  memory.resize(flat.moments.size() + 2);
  const auto copied = [&](const FlatTensor& from, Buffer& buffer) {
    if (!from) return FlatTensor();
    const auto size = static_cast<std::int64_t>(size_of(from.values.dtype()));
    if (!buffer.data() || buffer.bytes() != count * size)
      buffer =
          Buffer("copy for the checkpoint", count * size);  // also for a rank that owns nothing
    const FlatTensor to{Tensor(buffer.data(), {count}, from.values.dtype()), true};
    for (const Slice& slice : flat.slices)
      copy(to.at(slice).raw(), from.at(slice).raw(),
           static_cast<std::size_t>(slice.elements.size() * size));
    return to;
  };
  FlatState out = flat;
  out.parameters = copied(flat.parameters, memory[0]);
  out.ema = copied(flat.ema, memory[1]);
  for (std::size_t i = 0; i < flat.moments.size(); ++i)
    out.moments[i].values = copied(flat.moments[i].values, memory[i + 2]);
  return out;
}

}  // namespace hgt
