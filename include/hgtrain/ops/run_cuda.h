#pragma once

#include "hgtrain/device/stream.h"
#include "hgtrain/ops/cuda_ops_table.h"

namespace hgt {

/// Queues an op of the CUDA module on the stream's device: the CUDA side of an op, or of a flat
/// pass of another module. The operands must have been checked.
template <class Args>
void run_cuda(const Stream& stream, CudaOpsTable::Op<Args> CudaOpsTable::*op, const Args& args) {
  const CudaQueue& queue = stream.queue();
  check((queue.module().ops().*op)(&args, queue.state()));
}

}  // namespace hgt
