#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/comm/connect.h"
#include "hgtrain/device/cuda_queue.h"

#include "collectives.h"
#include "cuda_comm_table.h"

namespace hgt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLeaveTimeout{5000};
constexpr std::chrono::microseconds kPollInterval{20};

CudaCommId exchange_id(ControlChannel& channel, const CudaCommTable& nccl,
                       const GroupOptions& options) {
  const std::string key = fmt::format("comm/{}/nccl_id", options.group);
  CudaCommId id;
  if (options.rank == 0) {
    check(nccl.make_id(&id));
    channel.set(key, std::string(id.bytes, sizeof id.bytes));
    return id;
  }
  const std::string value = channel.get(key, options.timeout);
  if (value.size() != sizeof id.bytes)
    throw Error(ErrorKind::kPeer, fmt::format("rank 0's id of the group has {} bytes, expected {}",
                                              value.size(), sizeof id.bytes));
  std::memcpy(id.bytes, value.data(), sizeof id.bytes);
  return id;
}

class NcclCollectives final : public Collectives {
 public:
  NcclCollectives(ControlChannel& channel, const CudaQueue& compute, const GroupOptions& options)
      : options_(options),
        compute_(compute),
        queue_(compute.device(), compute.module()),
        nccl_(compute.module().comm()),
        finished_(queue_),
        staging_(nullptr, [this](void* memory) { release(memory); }) {
    const CudaCommId id = exchange_id(channel, nccl_, options);
    check(nccl_.start_connect(&id, options.rank, options.size, queue_.device().index, &comm_));
    try {
      settle(Clock::now() + options.timeout);
    } catch (Error& error) {
      abort();
      error.in("connecting over NCCL");
      throw;
    }
  }
  ~NcclCollectives() override { abort(); }

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }

  void entered() override {
    CudaEvent event(compute_);
    event.record(compute_);
    const std::lock_guard lock(mutex_);
    entered_.push_back(std::move(event));
  }

  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    next_entered().hold(queue_);
    std::byte* const ours = stage(mine.size() + all.size());
    std::byte* const theirs = ours + mine.size();
    queue_.copy(ours, mine.data(), mine.size());
    run([&] { return nccl_.all_gather(comm_, ours, theirs, mine.size(), queue_.state()); });
    queue_.copy(all.data(), theirs, all.size());
    finish();
  }
  void sum(std::span<float> values) override {
    on_device(values, [&](float* data) {
      run([&] { return nccl_.sum_f32(comm_, data, values.size(), queue_.state()); });
    });
  }
  void sum(std::span<double> values) override {
    on_device(values, [&](double* data) {
      run([&] { return nccl_.sum_f64(comm_, data, values.size(), queue_.state()); });
    });
  }
  void broadcast(std::span<std::byte> bytes, int root) override {
    on_device(bytes, [&](std::byte* data) {
      run([&] { return nccl_.broadcast(comm_, data, bytes.size(), root, queue_.state()); });
    });
  }

  void leave() noexcept override {
    try {
      with_comm([&] { return nccl_.start_leave(comm_); });
      settle(Clock::now() + kLeaveTimeout);
      const std::lock_guard lock(mutex_);
      if (comm_ != nullptr) (void)nccl_.destroy(std::exchange(comm_, nullptr));
    } catch (const std::exception&) {
      abort();
    }
  }
  void abort() noexcept override {
    const std::lock_guard lock(mutex_);
    if (comm_ != nullptr) (void)nccl_.abort(std::exchange(comm_, nullptr));
  }

 private:
  /// A call with the communicator, unless abort() has taken it away.
  void with_comm(const std::function<CudaResult()>& call) {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr) throw Error(ErrorKind::kPeer, "aborted");
    check(call());
  }

  CudaEvent next_entered() {
    const std::lock_guard lock(mutex_);
    CudaEvent event = std::move(entered_.front());
    entered_.pop_front();
    return event;
  }

  /// What NCCL says of itself: whether it is ready, or what failed here or at a peer.
  bool ready() {
    bool ready = false;
    with_comm([&] { return nccl_.poll(comm_, &ready); });
    return ready;
  }

  /// Asks until it is so, bounded by the deadline.
  void await(const std::function<bool()>& so, Clock::time_point deadline) {
    while (!so()) {
      if (Clock::now() >= deadline)
        throw Error(ErrorKind::kPeer,
                    fmt::format("the other ranks did not come within {:g} s",
                                static_cast<double>(options_.timeout.count()) * 1e-3));
      std::this_thread::sleep_for(kPollInterval);
    }
  }
  void settle(Clock::time_point deadline) {
    await([&] { return ready(); }, deadline);
  }

  /// Queues a collective and waits until it is done on the device. Where it fails, nothing of it is
  /// left running when the error leaves: the caller may free the memory.
  void run(const std::function<CudaResult()>& call) {
    const Clock::time_point deadline = Clock::now() + options_.timeout;
    try {
      with_comm(call);
      settle(deadline);
      finished_.record(queue_);
      await([&] { return finished_.done() || (ready(), false); }, deadline);
    } catch (const Error&) {
      abort();
      queue_.synchronize();
      throw;
    }
  }
  /// Waits for copies: nothing that hangs on a peer is queued any more.
  void finish() { queue_.synchronize(); }

  /// body(values in device memory): where they lie, or a copy that is brought back.
  template <class T, class Body>
  void on_device(std::span<T> values, const Body& body) {
    if (values.empty()) return;
    bool there = false;
    check(queue_.module().device().on_device(values.data(), &there));
    if (there) return body(values.data());
    T* const staged = reinterpret_cast<T*>(stage(values.size_bytes()));
    queue_.copy(staged, values.data(), values.size_bytes());
    body(staged);
    queue_.copy(values.data(), staged, values.size_bytes());
    finish();
  }

  /// Device memory of the collective under way. Grows to the largest request and stays.
  std::byte* stage(std::size_t bytes) {
    if (bytes > staging_bytes_) {
      void* memory = nullptr;
      staging_.reset();
      staging_bytes_ = 0;
      check(queue_.module().device().allocate(queue_.device().index, bytes, &memory));
      staging_.reset(memory);
      staging_bytes_ = bytes;
    }
    return static_cast<std::byte*>(staging_.get());
  }
  void release(void* memory) {
    (void)queue_.module().device().release(queue_.device().index, memory);
  }

  const GroupOptions options_;
  const CudaQueue& compute_;
  const CudaQueue queue_;
  const CudaCommTable& nccl_;
  CudaEvent finished_;
  std::unique_ptr<void, std::function<void(void*)>> staging_;
  std::size_t staging_bytes_ = 0;
  std::mutex mutex_;  ///< of the two below
  std::deque<CudaEvent> entered_;
  CudaCommState* comm_ = nullptr;
};

}  // namespace

std::unique_ptr<Communicator> connect_nccl(ControlChannel& channel, const CudaQueue& compute,
                                           const GroupOptions& options) {
  return make_queued_communicator(channel,
                                  std::make_unique<NcclCollectives>(channel, compute, options));
}

}  // namespace hgt
