#pragma once

#include <string>

#include "hgtrain/config/config.h"
#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/wire/store.h"

namespace hgt {

/// Computes a micro-batch with a few layers of this rank's part of a training job's model, without
/// the other ranks. All ranks call it before they connect, for two reasons.
///
/// It times the algorithms of matrix products, and no collective shares the GPU with what is timed.
/// Among ranks with the same kind of GPU, the first one chooses for all, so that they compute the
/// same bits; the others wait for its choices. With training.deterministic nothing is timed.
///
/// It loads the kernels of forward and backward, and of the sums of gradients between them. CUDA
/// loads a kernel when it is launched for the first time, and waits for all work of the device to
/// do so: if that is a receive of a pipeline, which waits for a peer that waits for this rank, for
/// ever. The update's kernels are loaded in the first step: they follow all that a rank sends in a
/// step, so no peer waits for it meanwhile.
///
/// Returns what to log. Error(kPeer) if the choices do not come within the config's timeout.
std::string warm_up(const Config& config, int rank, int ranks, Store& store,
                    const CudaQueue& queue);

}  // namespace hgt
