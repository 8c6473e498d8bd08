#include "step_graphs.h"

namespace hgt {

void StepGraphs::run_as_graph(Key key, const std::function<void()>& piece) {
  const auto [found, first] = graphs_.try_emplace(key);
  if (first) return piece();
  std::optional<CudaGraph>& graph = found->second;
  if (!graph) graph.emplace(stream_.queue(), piece);
  graph->launch(stream_.queue());
}

}  // namespace hgt
