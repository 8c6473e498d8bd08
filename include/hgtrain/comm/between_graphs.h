#pragma once

#include <memory>

#include "hgtrain/comm/communicator.h"

namespace hgt {

class CudaQueue;

/// `comm`, for work that may be captured as a CUDA graph. While `compute` is captured, a collective
/// is not entered but splits the graph (CudaQueue::run_between_graphs): each launch of the graph
/// enters the collective, with the same memory, between what `compute` got before and after it. All
/// ranks capture and launch the same work in the same order. In captured work, wait() must be
/// called by the work that started the collective, and waits for all collectives that were started
/// so far. `compute` must outlive the result.
std::unique_ptr<Communicator> run_between_graphs(std::unique_ptr<Communicator> comm,
                                                 const CudaQueue& compute);

}  // namespace hgt
