#pragma once

#include "order.h"

/// What CUDA forbids while a thread captures a stream (cudaStreamCaptureModeThreadLocal). A call
/// that is forbidden fails, and so do the captures of its thread from then on, until they end.
namespace hgt::emulation {

/// This thread begins to capture a stream to the graph.
void begin_capture(Graph& graph);
/// Throws if another thread began the capture, or if it has failed.
void end_capture(Graph& graph);

/// Throws if this thread captures a stream, because CUDA forbids `call` then.
void forbid_in_capture(const char* call);
/// Throws if this stream is being captured, by any thread.
void forbid_of_captured(cudaStream_t stream, const char* call);

}  // namespace hgt::emulation
