#pragma once

#include "hgtrain/comm/communicator.h"
#include "hgtrain/device/cuda_queue.h"

namespace hgt {

/// Blocks until the point has been passed. Throws the communicator's error if it failed in that
/// time, because the device may then wait for ever.
void wait_on_host(const CudaEvent& event, Communicator& comm);

}  // namespace hgt
