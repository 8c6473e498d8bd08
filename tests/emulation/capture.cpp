#include "capture.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt::emulation {
namespace {

std::mutex g_mutex;
std::vector<Graph*> g_captures;  ///< all that are under way

[[noreturn]] void fail(const char* call) {
  throw Error(ErrorKind::kDevice,
              fmt::format("{}: operation not permitted when stream is capturing", call));
}

}  // namespace

void begin_capture(Graph& graph) {
  const std::lock_guard lock(g_mutex);
  graph.thread = std::this_thread::get_id();
  g_captures.push_back(&graph);
}

void end_capture(Graph& graph) {
  const std::lock_guard lock(g_mutex);
  std::erase(g_captures, &graph);
  if (graph.thread != std::this_thread::get_id())
    throw Error(ErrorKind::kDevice, "another thread began the capture");
  if (graph.has_failed)
    throw Error(ErrorKind::kDevice,
                "cudaStreamEndCapture: operation failed due to a previous error during capture");
}

void forbid_in_capture(const char* call) {
  const std::lock_guard lock(g_mutex);
  bool captures = false;
  for (Graph* const graph : g_captures)
    if (graph->thread == std::this_thread::get_id()) captures = graph->has_failed = true;
  if (captures) fail(call);
}

void forbid_of_captured(cudaStream_t stream, const char* call) {
  const std::lock_guard lock(g_mutex);
  if (!stream->captured) return;
  stream->captured->has_failed = true;
  fail(call);
}

}  // namespace hgt::emulation
