#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "cuda_runtime_api.h"
#include "device_memory.h"
#include "operations.h"

/// Which work comes before which, however fast each stream is. The emulation runs all but
/// collectives (operations.h) at once and in the order of the calls; what it was given must not
/// depend on that. So every access of an op to memory is compared with the earlier ones: if one of
/// two writes, one must come before the other by the order of a stream, an event or a wait of the
/// host (a happens-before check, after Lamport 1978, with vector clocks). A violation is an
/// Error(kInternal) of the call that completes it.
namespace hgt::emulation {

/// How far each stream had come, of what the holder comes after.
using Clock = std::map<int, std::uint64_t>;

/// Work that was captured.
struct Graph {
  std::vector<std::function<void()>> work;
  std::vector<Access> accesses;
  std::vector<std::shared_ptr<void>> scratch;  ///< memory that the work uses
  std::thread::id thread = {};                 ///< that captures it
  bool has_failed = false;                     ///< its capture
};

struct Event {
  int id;
  bool recorded = false;
  Clock clock = {};
  Operations pending = {};  ///< of its stream, when it was recorded
};

/// The accesses of the op that is given to the stream next, or becomes part of its graph.
void note(cudaStream_t stream, const std::vector<Access>& accesses);
/// The stream's next operation, which somebody else does; its accesses are noted.
std::shared_ptr<Operation> queue_operation(cudaStream_t stream,
                                           const std::vector<Access>& accesses);
/// Runs work of the stream once the operations before it are done, or keeps it in the graph that is
/// being captured.
void submit(cudaStream_t stream, std::function<void()> work);
/// A copy; one to page-locked memory arrives when the host has waited for it, and what is copied
/// from there must be the same until then.
void submit_copy(cudaStream_t stream, void* to, const void* from, std::size_t bytes);
void launch(cudaStream_t stream, const Graph& graph);

void record(Event& event, cudaStream_t stream);
/// HGTRAIN_EMULATION_DROP_WAIT=n leaves out the waits of the n-th pair of a stream and an event.
void wait(cudaStream_t stream, const Event& event);
/// The host has waited.
void host_waits_for(const Clock& clock);
bool has_host_waited_for(const Clock& clock);

/// Whoever has the memory from now on knows nothing of what was done to it.
void forget(const void* memory, std::size_t bytes);

}  // namespace hgt::emulation

struct CUstream_st {
  int id;
  hgt::emulation::Clock clock;
  hgt::emulation::Graph* captured = nullptr;  ///< that is being captured
  hgt::emulation::Operations pending = {};    ///< what its next work comes after
};
