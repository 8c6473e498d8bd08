#include "hgtrain/comm/between_graphs.h"

#include <functional>
#include <utility>
#include <vector>

#include "hgtrain/device/cuda_queue.h"

namespace hgt {
namespace {

class BetweenGraphs final : public Communicator {
 public:
  BetweenGraphs(std::unique_ptr<Communicator> comm, const CudaQueue& compute)
      : comm_(std::move(comm)), compute_(compute) {}

  int rank() const override { return comm_->rank(); }
  int size() const override { return comm_->size(); }

  void barrier() override {
    compute_.run_between_graphs([this] { comm_->barrier(); });
  }
  std::uint64_t start_all_reduce_sum(std::span<std::byte> values, DType type) override {
    return start([=, this] { return comm_->start_all_reduce_sum(values, type); });
  }
  std::uint64_t start_reduce_scatter_sum(std::span<std::byte> values, DType type,
                                         std::span<const OwnedRange> parts) override {
    return start([=, this, own = std::vector(parts.begin(), parts.end())] {
      return comm_->start_reduce_scatter_sum(values, type, own);
    });
  }
  std::uint64_t start_all_gather(std::span<std::byte> values,
                                 std::span<const OwnedRange> parts) override {
    return start([=, this, own = std::vector(parts.begin(), parts.end())] {
      return comm_->start_all_gather(values, own);
    });
  }
  std::uint64_t start_broadcast(std::span<std::byte> bytes, int root) override {
    return start([=, this] { return comm_->start_broadcast(bytes, root); });
  }
  void wait(std::uint64_t ticket) override {
    if (!compute_.is_captured()) return comm_->wait(ticket);
    // They complete in order.
    compute_.run_between_graphs([this] { comm_->wait(comm_->sequence()); });
  }

  void make_wait(std::uint64_t ticket, const CudaQueue& queue) override {
    comm_->make_wait(ticket, queue);
  }
  void come_after(const CudaQueue& queue) override { comm_->come_after(queue); }
  void check() override { comm_->check(); }
  std::uint64_t reduced_bytes() const override { return comm_->reduced_bytes(); }
  std::uint64_t gathered_bytes() const override { return comm_->gathered_bytes(); }
  std::uint64_t sequence() const override { return comm_->sequence(); }
  std::int64_t waited_ns() const override { return comm_->waited_ns(); }
  void abort() noexcept override { comm_->abort(); }

 private:
  template <class Start>
  std::uint64_t start(const Start& start) {
    if (!compute_.is_captured()) return start();
    compute_.run_between_graphs([start] { (void)start(); });
    return 0;  // wait() does not need it
  }

  const std::unique_ptr<Communicator> comm_;
  const CudaQueue& compute_;
};

}  // namespace

std::unique_ptr<Communicator> run_between_graphs(std::unique_ptr<Communicator> comm,
                                                 const CudaQueue& compute) {
  return std::make_unique<BetweenGraphs>(std::move(comm), compute);
}

}  // namespace hgt
