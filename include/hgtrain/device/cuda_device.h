#pragma once

#include "hgtrain/device/cuda_table.h"

namespace hgt {

/// The module's device functions.
const CudaDeviceTable* cuda_device_table();

}  // namespace hgt
