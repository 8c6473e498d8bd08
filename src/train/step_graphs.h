#pragma once

#include <compare>
#include <functional>
#include <map>
#include <optional>

#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/parallel/schedule.h"

namespace hgt {

/// Runs parts of a step that queue the same work in every step as CUDA graphs: one launch instead
/// of one per kernel. A collective within a part cuts its graph (comm/between_graphs.h).
class StepGraphs {
 public:
  /// What identifies a part of a step: what it does, and to which block, in which slot; or which
  /// part of the update it is.
  struct Key {
    Action::Kind kind;
    int part = 0;
    int slot = 0;
    auto operator<=>(const Key&) const = default;
  };

  /// If not `enabled`, and on the CPU, every part is queued directly.
  StepGraphs(Stream stream, bool enabled)
      : stream_(stream), enabled_(enabled && !stream.device().is_cpu()) {}

  /// Queues the work of `body`. The first call runs it directly, because it may allocate what
  /// later calls reuse (plans of products, scratch memory). The second call captures it, and later
  /// calls launch the graph.
  template <class Body>
  void run(Key key, const Body& body) {
    if (enabled_)
      run_as_graph(key, body);
    else
      body();
  }
  /// Call this when the parts would queue other work than was captured.
  void forget() { graphs_.clear(); }

 private:
  void run_as_graph(Key key, const std::function<void()>& body) {
    const auto [found, first] = graphs_.try_emplace(key);
    if (first) return body();
    std::optional<CudaGraph>& graph = found->second;
    if (!graph) graph.emplace(stream_.queue(), body);
    graph->launch(stream_.queue());
  }
  const Stream stream_;
  const bool enabled_;
  std::map<Key, std::optional<CudaGraph>> graphs_;  ///< no value after the first, direct run
};

}  // namespace hgt
