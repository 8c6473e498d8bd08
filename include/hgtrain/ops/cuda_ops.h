#pragma once

#include "hgtrain/device/cuda_table.h"

namespace hgt {

/// The CUDA module's ops. Worker code calls an op of hgtrain/ops with a Stream of a CUDA device
/// instead.
const CudaOpsTable* cuda_ops_table();

}  // namespace hgt
