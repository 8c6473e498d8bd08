#include "hgtrain/optim/round.h"

#include "hgtrain/base/half.h"
#include "hgtrain/ops/run_cuda.h"

#include "chunks.h"

namespace hgt {
namespace {

template <class T>
void round_values(const float* values, T* out, std::int64_t count, ThreadPool& pool) {
  for_chunks(pool, {0, count}, [&](Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) out[i] = values[i];
  });
}

template <class T>
void round_as(const Tensor& values, const Tensor& out, DType type, Stream stream) {
  const float* const from = values.data<float>();
  T* const to = out.data<T>();
  if (!stream.device().is_cpu())
    return run_cuda(stream, &CudaOpsTable::cast, {from, to, DType::kF32, type, values.numel()});
  round_values(from, to, values.numel(), stream.pool());
}

}  // namespace

void round_to(const Tensor& values, const Tensor& out, Stream stream) {
  if (out.dtype() == DType::kBF16)
    round_as<BFloat16>(values, out, DType::kBF16, stream);
  else
    round_as<Half>(values, out, DType::kF16, stream);
}

}  // namespace hgt
