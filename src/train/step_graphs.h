#pragma once

#include <compare>
#include <functional>
#include <map>
#include <optional>

#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/parallel/schedule.h"

namespace hgt {

/// Pieces of a step that queue the same in every step, as CUDA graphs: one launch instead of one a
/// kernel. A collective within a piece cuts its graph (comm/between_graphs.h).
class StepGraphs {
 public:
  /// What identifies a piece: what it does, and to which block, in which slot; or which part of the
  /// update it is.
  struct Key {
    Action::Kind kind;
    int part = 0;
    int slot = 0;
    auto operator<=>(const Key&) const = default;
  };

  /// If not `enabled`, and on the CPU, every piece is queued as it is.
  StepGraphs(Stream stream, bool enabled)
      : stream_(stream), enabled_(enabled && !stream.device().is_cpu()) {}

  /// Queues what `piece` queues. The first call runs it directly, because it makes what is kept
  /// (plans of products, scratch). The second call captures it, and later calls launch the graph.
  template <class Piece>
  void run(Key key, const Piece& piece) {
    if (enabled_)
      run_as_graph(key, piece);
    else
      piece();
  }
  /// Call this if what was captured is not what the pieces queue any more.
  void forget() { graphs_.clear(); }

 private:
  void run_as_graph(Key key, const std::function<void()>& piece) {
    const auto [found, first] = graphs_.try_emplace(key);
    if (first) return piece();
    std::optional<CudaGraph>& graph = found->second;
    if (!graph) graph.emplace(stream_.queue(), piece);
    graph->launch(stream_.queue());
  }
  const Stream stream_;
  const bool enabled_;
  std::map<Key, std::optional<CudaGraph>> graphs_;  ///< empty once a piece was queued as it is
};

}  // namespace hgt
