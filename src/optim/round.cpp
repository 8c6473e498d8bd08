#include "hgtrain/optim/round.h"

#include "hgtrain/ops/run_cuda.h"

#include "cpu_loops.h"

namespace hgt {

void round_to(const Tensor& values, const Tensor& out, Stream stream) {
  if (!stream.device().is_cpu())
    return run_cuda(stream, &CudaOpsTable::cast,
                    {values.raw(), out.raw(), values.dtype(), out.dtype(), values.numel()});
  stream.pool().parallel_for(values.numel(), [&](std::int64_t begin, std::int64_t end, int) {
    round_values(values.slice(0, begin, end), out.slice(0, begin, end));
  });
}

}  // namespace hgt
