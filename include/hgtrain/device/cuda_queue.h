#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "hgtrain/device/cuda_module.h"
#include "hgtrain/device/device.h"

namespace hgt {

/// An owned CUDA stream: work queued on it runs in order, beside that of other queues. One thread
/// uses it. Calls throw Error(kDevice); what a queued kernel does wrong appears in a later call.
class CudaQueue {
 public:
  /// The module outlives it.
  explicit CudaQueue(Device device, const CudaModule& module = CudaModule::get());

  Device device() const { return device_; }
  const CudaModule& module() const { return *module_; }
  CudaStreamState* state() const { return state_.get(); }

  /// What the device is.
  CudaDeviceProperties properties() const;

  /// What the device has, by all processes.
  struct Memory {
    std::int64_t free_bytes, total_bytes;
  };
  Memory memory() const;

  /// Queues a copy between any two places; returns at once where host memory is page-locked.
  void copy(void* to, const void* from, std::size_t bytes) const;
  /// Queues a copy of `rows` rows, that lie `to_pitch` and `from_pitch` bytes apart.
  void copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                 std::size_t row_bytes, std::size_t rows) const;
  /// Blocks until all that was queued is done.
  void synchronize() const;

 private:
  Device device_;
  const CudaModule* module_;
  std::unique_ptr<CudaStreamState, CudaResult (*)(CudaStreamState*)> state_;
};

/// A place in a queue that another queue or the host can wait for.
class CudaEvent {
 public:
  explicit CudaEvent(const CudaQueue& queue);

  /// Here: after what `queue` has been given so far. Records again where it was recorded before.
  void record(const CudaQueue& queue);
  /// What `queue` is given from now on comes after the place.
  void hold(const CudaQueue& queue) const;
  /// Whether the place has been passed. Never blocks.
  bool done() const;
  /// Time on the device between two places that have been passed.
  static double elapsed_ms(const CudaEvent& begin, const CudaEvent& end);

 private:
  const CudaModule* module_;
  std::unique_ptr<CudaEventState, CudaResult (*)(CudaEventState*)> state_;
};

/// Work that was captured from a queue, to be queued again at the cost of one launch. It reads and
/// writes the memory it was captured with.
class CudaGraph {
 public:
  /// Captures what `work` queues, which is not run. It may not allocate memory on the device, wait
  /// for it or copy from host memory that is not page-locked.
  CudaGraph(const CudaQueue& queue, const std::function<void()>& work);
  void launch(const CudaQueue& queue) const;

 private:
  const CudaModule* module_;
  std::unique_ptr<CudaGraphState, CudaResult (*)(CudaGraphState*)> state_;
};

}  // namespace hgt
