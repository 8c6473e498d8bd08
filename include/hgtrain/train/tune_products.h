#pragma once

#include <string>

#include "hgtrain/config/config.h"
#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/wire/store.h"

namespace hgt {

/// Chooses the algorithms of a training job's matrix products. All ranks call it before they
/// connect: then no collective shares the GPU with what is timed, and no rank waits in one for
/// another that times. Among ranks with the same kind of GPU, the first one chooses for all, so
/// that they compute the same bits: it computes a micro-batch with a few layers of its part of the
/// job's model, without the others, which wait for its choices. Products that are missing from them
/// are timed when they are first computed.
///
/// Returns what to log. Error(kPeer) if the choices do not come within the config's timeout.
std::string tune_products(const Config& config, int rank, int ranks, Store& store,
                          const CudaQueue& queue);

}  // namespace hgt
