#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "hgtrain/device/cuda_module.h"
#include "hgtrain/device/device.h"

namespace hgt {

class CudaGraph;

/// An owned CUDA stream: its work runs in order, while other queues run too. One thread uses it.
/// Calls throw Error(kDevice); an error of a queued kernel is thrown by a later call.
class CudaQueue {
 public:
  /// The module must outlive the queue.
  explicit CudaQueue(Device device, const CudaModule& module = CudaModule::get());

  Device device() const { return device_; }
  const CudaModule& module() const { return *module_; }
  CudaStreamState* state() const { return state_.get(); }

  /// The properties of the device.
  CudaDeviceProperties properties() const;

  /// The device's memory; `free_bytes` counts what all processes use.
  struct Memory {
    std::int64_t free_bytes, total_bytes;
  };
  Memory memory() const;

  /// Queues a copy between any two places; returns at once if the host memory is page-locked.
  void copy(void* to, const void* from, std::size_t bytes) const;
  /// Queues a copy of `rows` rows that lie `to_pitch` and `from_pitch` bytes apart.
  void copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                 std::size_t row_bytes, std::size_t rows) const;
  /// Blocks until all queued work is done.
  void synchronize() const;
  /// Runs `call`, which may be what a graph must not contain. While the queue is captured, `call`
  /// is kept instead: each launch of the graph runs it between what the queue got before and after
  /// it.
  void run_between_graphs(const std::function<void()>& call) const;
  bool is_captured() const { return graph_ != nullptr; }

 private:
  friend class CudaGraph;
  Device device_;
  const CudaModule* module_;
  /// The graph that is being captured from the queue; null: none.
  mutable CudaGraph* graph_ = nullptr;
  std::unique_ptr<CudaStreamState, CudaResult (*)(CudaStreamState*)> state_;
};

/// A point in a queue that another queue or the host can wait for.
class CudaEvent {
 public:
  explicit CudaEvent(const CudaQueue& queue);

  /// Sets the point: after all work queued on `queue` so far. A later call moves it.
  void record(const CudaQueue& queue);
  /// Work that is queued on `queue` from now on waits for the point.
  void make_wait(const CudaQueue& queue) const;
  /// Whether the point has been passed. Never blocks.
  bool done() const;
  /// Blocks until the point has been passed, and calls `check` meanwhile, which may throw.
  void wait(const std::function<void()>& check = [] {}) const;
  /// The time on the device between two points that have been passed.
  static double elapsed_ms(const CudaEvent& begin, const CudaEvent& end);

 private:
  const CudaModule* module_;
  std::unique_ptr<CudaEventState, CudaResult (*)(CudaEventState*)> state_;
};

/// Work that was captured from a queue and can be queued again at the cost of one launch. It reads
/// and writes the memory that it was captured with. Calls of run_between_graphs cut it: then it is
/// one launch for each segment between them.
class CudaGraph {
 public:
  /// Captures what `work` queues, without running it. Except in run_between_graphs, `work` must not
  /// allocate device memory, wait for the device, or copy from host memory that is not page-locked.
  CudaGraph(const CudaQueue& queue, const std::function<void()>& work);
  /// Makes it ready for launches. May wait for all work of the device, also that of other queues.
  void prepare(const CudaQueue& queue);
  bool is_ready() const { return ready_; }
  /// Queues the work, once it is ready.
  void launch(const CudaQueue& queue) const;

 private:
  friend class CudaQueue;
  using Segment = std::unique_ptr<CudaGraphState, CudaResult (*)(CudaGraphState*)>;
  void add_segment(const CudaQueue& queue);
  void cut(const CudaQueue& queue, const std::function<void()>& call);

  const CudaModule* module_;
  std::vector<std::variant<Segment, std::function<void()>>> parts_;  ///< in the order of the queue
  bool ready_ = false;
};

}  // namespace hgt
