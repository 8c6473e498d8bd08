#include "hgtrain/ops/update.h"

#include "dispatch.h"

namespace hgt {

void prepare_update(const Tensor& losses, const Tensor& squares, Update* update, Stream stream) {
  const Checks check("prepare_update", stream);
  check.contiguous("losses", losses, {losses.numel()}, DType::kF64);
  check.contiguous("squares", squares, {squares.numel()}, DType::kF64);
  if (!stream.device().is_cpu())
    return run_cuda(
        stream, &CudaOpsTable::prepare_update,
        {update, squares.data<double>(), squares.numel(), losses.data<double>(), losses.numel()});
  cpu::prepare_update(losses, squares, *update);
}

}  // namespace hgt
