#include "hgtrain/optim/round.h"

#include "hgtrain/base/half.h"

#include "chunks.h"

namespace hgt {
namespace {

template <class T>
void round_values(std::span<const float> values, T* out, ThreadPool& pool) {
  for_chunks(pool, {0, static_cast<std::int64_t>(values.size())}, [&](Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) out[i] = values[i];
  });
}

}  // namespace

void round_to(std::span<const float> values, const Tensor& out, ThreadPool& pool) {
  if (out.dtype() == DType::kBF16)
    round_values(values, out.data<BFloat16>(), pool);
  else
    round_values(values, out.data<Half>(), pool);
}

}  // namespace hgt
