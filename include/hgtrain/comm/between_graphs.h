#pragma once

#include <memory>

#include "hgtrain/comm/communicator.h"

namespace hgt {

class CudaQueue;

/// The same communicator, for work that may be captured from its compute queue, which outlives it.
/// While the queue is captured, collectives are not entered, but cut the graph
/// (CudaQueue::run_between_graphs): each launch enters them, with the same memory, between the
/// stretches of work around them. All ranks launch, or run, the same pieces of work in the same
/// order. A ticket of such a collective is for wait() in the same piece, which waits for all
/// collectives that the piece has started until there.
std::unique_ptr<Communicator> run_between_graphs(std::unique_ptr<Communicator> comm,
                                                 const CudaQueue& compute);

}  // namespace hgt
