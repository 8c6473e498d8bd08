#pragma once

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <thread>

#include "hgtrain/base/clock.h"
#include "hgtrain/device/cuda_module.h"

// A CUDA module whose devices are threads: streams run what they are given in order, behind the
// caller's back, and device memory is remembered as such.

namespace hgt {

/// Runs tasks in order on a thread of its own.
struct CudaStreamState {
  CudaStreamState() : thread([this] { serve(); }) {}
  ~CudaStreamState() {
    add({});
    thread.join();
  }
  void add(std::function<void()> task) {
    const std::lock_guard lock(mutex);
    tasks.push_back(std::move(task));
    changed.notify_all();
  }
  void synchronize() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return tasks.empty(); });
  }

 private:
  void serve() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return !tasks.empty(); });
      const std::function<void()> task = tasks.front();
      lock.unlock();
      if (task) task();
      lock.lock();
      tasks.pop_front();
      changed.notify_all();
      if (!task) return;
    }
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;  ///< the first is running
  std::thread thread;
};

/// How often the place was recorded and passed; shared with the streams that have not passed it.
struct CudaEventState {
  struct Count {
    std::mutex mutex;
    std::condition_variable changed;
    int recorded = 0, passed = 0;
    std::int64_t passed_ns = 0;
  };
  std::shared_ptr<Count> count = std::make_shared<Count>();
};

namespace fake_cuda {

inline std::mutex g_mutex;
inline std::set<const void*> g_device_memory;

inline const CudaDeviceTable& device_table() {
  static const CudaDeviceTable table = [] {
    CudaDeviceTable t{};
    t.probe = [](CudaProbe* out) -> CudaResult {
      *out = {};
      out->runtime_version = out->driver_version = 13000;
      return nullptr;
    };
    t.allocate = [](int, std::size_t bytes, void** out) -> CudaResult {
      *out = std::calloc(1, bytes);
      const std::lock_guard lock(g_mutex);
      g_device_memory.insert(*out);
      return nullptr;
    };
    t.release = [](int, void* memory) -> CudaResult {
      const std::lock_guard lock(g_mutex);
      g_device_memory.erase(memory);
      std::free(memory);
      return nullptr;
    };
    t.allocate_pinned = [](std::size_t bytes, void** out) -> CudaResult {
      *out = std::calloc(1, bytes);
      return nullptr;
    };
    t.release_pinned = [](void* memory) -> CudaResult {
      std::free(memory);
      return nullptr;
    };
    t.on_device = [](const void* memory, bool* out) -> CudaResult {
      const std::lock_guard lock(g_mutex);
      *out = g_device_memory.count(memory) != 0;
      return nullptr;
    };
    t.create_stream = [](int, CudaStreamState** out) -> CudaResult {
      *out = new CudaStreamState;
      return nullptr;
    };
    t.destroy_stream = [](CudaStreamState* stream) -> CudaResult {
      delete stream;
      return nullptr;
    };
    t.synchronize_stream = [](CudaStreamState* stream) -> CudaResult {
      stream->synchronize();
      return nullptr;
    };
    t.create_event = [](int, CudaEventState** out) -> CudaResult {
      *out = new CudaEventState;
      return nullptr;
    };
    t.destroy_event = [](CudaEventState* event) -> CudaResult {
      delete event;
      return nullptr;
    };
    t.record_event = [](CudaEventState* event, CudaStreamState* stream) -> CudaResult {
      const auto count = event->count;
      const std::lock_guard lock(count->mutex);
      ++count->recorded;
      stream->add([count] {
        const std::lock_guard passing(count->mutex);
        ++count->passed;
        count->passed_ns = now_ns();
        count->changed.notify_all();
      });
      return nullptr;
    };
    t.wait_event = [](CudaStreamState* stream, CudaEventState* event) -> CudaResult {
      stream->add([count = event->count] {
        std::unique_lock lock(count->mutex);
        count->changed.wait(lock, [&] { return count->passed == count->recorded; });
      });
      return nullptr;
    };
    t.query_event = [](CudaEventState* event, bool* done) -> CudaResult {
      const std::lock_guard lock(event->count->mutex);
      *done = event->count->passed == event->count->recorded;
      return nullptr;
    };
    t.elapsed_ms = [](CudaEventState* begin, CudaEventState* end, float* out) -> CudaResult {
      *out = static_cast<float>(end->count->passed_ns - begin->count->passed_ns) * 1e-6f;
      return nullptr;
    };
    t.copy = [](void* to, const void* from, std::size_t bytes,
                CudaStreamState* stream) -> CudaResult {
      stream->add([=] { std::memcpy(to, from, bytes); });
      return nullptr;
    };
    return t;
  }();
  return table;
}

/// Device memory of the fake device.
struct DeviceFloats {
  explicit DeviceFloats(std::size_t count) {
    void* memory = nullptr;
    check(device_table().allocate(0, count * sizeof(float), &memory));
    values = {static_cast<float*>(memory), count};
  }
  DeviceFloats(const DeviceFloats&) = delete;
  ~DeviceFloats() { (void)device_table().release(0, values.data()); }
  std::span<float> values;
};

/// A module with the fake device and the given tables of other modules; one set of them at a time.
inline CudaModule module(const CudaOpsTable* ops, const CudaCommTable* comm) {
  static CudaTables tables{0, "fake", &device_table(), nullptr, nullptr};
  tables.ops = ops;
  tables.comm = comm;
  return CudaModule(tables);
}

}  // namespace fake_cuda
}  // namespace hgt
