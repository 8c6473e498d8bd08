#pragma once

#include <functional>
#include <map>
#include <optional>

#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/device/stream.h"

namespace hgt {

/// Pieces of a step that queue the same in every step, as CUDA graphs: one launch instead of one a
/// kernel.
class StepGraphs {
 public:
  /// Where not `enabled`, and on the CPU, every piece is queued as it is.
  StepGraphs(Stream stream, bool enabled)
      : stream_(stream), enabled_(enabled && !stream.device().is_cpu()) {}

  /// Queues what `piece` queues. The first call runs it directly, because it makes what is kept
  /// (plans of products, scratch). The second call captures it, and later calls launch the graph.
  /// `key` identifies the piece.
  template <class Piece>
  void run(int key, const Piece& piece) {
    if (enabled_)
      run_as_graph(key, piece);
    else
      piece();
  }
  /// What was captured is not true any more.
  void forget() { graphs_.clear(); }

 private:
  void run_as_graph(int key, const std::function<void()>& piece);
  const Stream stream_;
  const bool enabled_;
  std::map<int, std::optional<CudaGraph>> graphs_;  ///< empty once a piece was queued as it is
};

}  // namespace hgt
