#include "hgtrain/optim/ema.h"

#include "hgtrain/base/element.h"
#include "hgtrain/ops/run_cuda.h"

#include "chunks.h"

namespace hgt {

void update_ema(double decay, const Tensor& values, const Tensor& average, const Update* update,
                Stream stream) {
  if (!average) return;
  const float decay_factor = static_cast<float>(decay),
              one_minus_decay = static_cast<float>(1 - decay);
  float* const mean = average.data<float>();
  if (!stream.device().is_cpu())
    return run_cuda(stream, &CudaOpsTable::update_average,
                    {mean, values.raw(), values.dtype(), average.numel(), decay_factor,
                     one_minus_decay, update});
  if (update->skip != 0) return;
  visit_element(values.dtype(), [&]<class T>(T) {
    const T* const value = values.data<T>();
    for_chunks(stream.pool(), {0, average.numel()}, [&](Range range) {
      for (std::int64_t i = range.begin; i < range.end; ++i)
        mean[i] = decay_factor * mean[i] + one_minus_decay * static_cast<float>(value[i]);
    });
  });
}

}  // namespace hgt
