#include <algorithm>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

#include "hgtrain/device/cuda_queue.h"

#include "collectives.h"
#include "staged_parts.h"

namespace hgt {
namespace {

constexpr std::size_t kStagedBytes = std::size_t{8} << 20;

/// Collectives of host memory, for a GPU's memory too: one piece at a time is copied to the host,
/// on a queue after the work that compute had when the collective was entered, and its result is
/// copied back before the collective returns.
class StagedCollectives final : public Collectives {
 public:
  StagedCollectives(std::unique_ptr<Collectives> host, const CudaQueue& compute)
      : host_(std::move(host)),
        compute_(compute),
        queue_(compute.device(), compute.module()),
        piece_(allocate_pinned(compute.module(), kStagedBytes)) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }

  void entered() override {
    CudaEvent event(compute_);
    event.record(compute_);
    const std::lock_guard lock(mutex_);
    entered_.push_back(std::move(event));
  }

  void announce(std::span<const std::byte> mine, std::span<std::byte> all) override {
    next_entered().make_wait(queue_);
    host_->announce(mine, all);
  }
  void sum(std::span<std::byte> values, DType type) override {
    staged(values, [&](std::span<std::byte> piece) { host_->sum(piece, type); });
  }
  void broadcast(std::span<std::byte> bytes, int root) override {
    staged(bytes, [&](std::span<std::byte> piece) { host_->broadcast(piece, root); });
  }
  void reduce_scatter(std::span<std::byte> values, DType type,
                      std::span<const OwnedRange> parts) override {
    if (!on_device(values)) return host_->reduce_scatter(values, type, parts);
    stage_parts(staging(), values, type, parts, true, rank(), size(),
                [&](auto piece, auto packed) { host_->reduce_scatter(piece, type, packed); });
  }
  void all_gather(std::span<std::byte> values, std::span<const OwnedRange> parts) override {
    if (!on_device(values)) return host_->all_gather(values, parts);
    stage_parts(staging(), values, DType::kU8, parts, false, rank(), size(),
                [&](auto piece, auto packed) { host_->all_gather(piece, packed); });
  }

  void leave() noexcept override { host_->leave(); }
  void abort() noexcept override { host_->abort(); }

 private:
  CudaEvent next_entered() {
    const std::lock_guard lock(mutex_);
    CudaEvent event = std::move(entered_.front());
    entered_.pop_front();
    return event;
  }

  bool on_device(std::span<const std::byte> values) const {
    bool there = false;
    if (!values.empty()) check(queue_.module().device().on_device(values.data(), &there));
    return there;
  }

  Staging staging() const { return {queue_, static_cast<std::byte*>(piece_.get()), kStagedBytes}; }

  /// Runs body(values) on host memory; on device memory, piece by piece, body(a copy).
  template <class Body>
  void staged(std::span<std::byte> values, const Body& body) {
    if (!on_device(values)) return body(values);
    for (std::size_t at = 0; at < values.size(); at += kStagedBytes) {
      const auto part = values.subspan(at, std::min(kStagedBytes, values.size() - at));
      const std::span copy(static_cast<std::byte*>(piece_.get()), part.size());
      queue_.copy(copy.data(), part.data(), part.size());
      queue_.synchronize();
      body(copy);
      queue_.copy(part.data(), copy.data(), part.size());
      queue_.synchronize();
    }
  }

  const std::unique_ptr<Collectives> host_;
  const CudaQueue& compute_;
  const CudaQueue queue_;
  const PinnedMemory piece_;
  std::mutex mutex_;
  std::deque<CudaEvent> entered_;  ///< compute's work at entry, per collective not begun
};

}  // namespace

std::unique_ptr<Collectives> stage_for(const CudaQueue* compute,
                                       std::unique_ptr<Collectives> host) {
  if (compute == nullptr) return host;
  return std::make_unique<StagedCollectives>(std::move(host), *compute);
}

}  // namespace hgt
