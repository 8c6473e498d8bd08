#pragma once

#include <compare>
#include <functional>
#include <map>
#include <optional>
#include <utility>

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
  /// later calls reuse (plans of products, scratch memory). The second call captures it, too. Calls
  /// after prepare() launch the graph.
  template <class Body>
  void run(Key key, const Body& body) {
    if (enabled_)
      run_as_graph(key, body);
    else
      body();
  }
  /// Call this when the parts would queue other work than was captured.
  void forget() {
    graphs_.clear();
    has_new_ = false;
  }

  /// Whether graphs were captured that prepare() has not made ready yet.
  bool has_new() const { return has_new_; }
  /// Makes the captured graphs ready. Call it between steps, when the device is idle, because CUDA
  /// may wait for all work of the device: within a step of a pipeline, that may be a receive that
  /// waits for a peer that waits for this rank.
  void prepare() {
    if (!std::exchange(has_new_, false)) return;
    for (auto& [key, graph] : graphs_)
      if (graph && !graph->is_ready()) graph->prepare(stream_.queue());
  }

 private:
  void run_as_graph(Key key, const std::function<void()>& body) {
    const auto [found, first] = graphs_.try_emplace(key);
    std::optional<CudaGraph>& graph = found->second;
    if (graph && graph->is_ready()) return graph->launch(stream_.queue());
    if (!first && !graph) {
      graph.emplace(stream_.queue(), body);
      has_new_ = true;
    }
    body();
  }
  const Stream stream_;
  const bool enabled_;
  std::map<Key, std::optional<CudaGraph>> graphs_;  ///< no value after the first run
  bool has_new_ = false;
};

}  // namespace hgt
