#pragma once

#include "hgtrain/device/cuda_table.h"

namespace hgt {

/// The CUDA module's NCCL. Worker code calls connect_nccl instead.
const CudaCommTable* cuda_comm_table();

}  // namespace hgt
