#include "hgtrain/optim/round.h"

#include "hgtrain/ops/run_cuda.h"

#include "chunks.h"

namespace hgt {

void round_to(const Tensor& values, const Tensor& out, Stream stream) {
  if (!stream.device().is_cpu())
    return run_cuda(stream, &CudaOpsTable::cast,
                    {values.raw(), out.raw(), values.dtype(), out.dtype(), values.numel()});
  for_chunks(stream.pool(), {0, values.numel()},
             [&](Range range) { round_chunk(values, range, out); });
}

}  // namespace hgt
