#include <atomic>

#include "hgtrain/base/error.h"
#include "hgtrain/comm/connect.h"

#include "aborted.h"
#include "parts.h"

namespace hgt {
namespace {

class SelfCommunicator final : public Communicator {
 public:
  SelfCommunicator(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void barrier() override { enter(0, 0); }

  std::uint64_t start_all_reduce_sum(std::span<std::byte> values, DType) override {
    return enter(values.size(), 0);
  }
  std::uint64_t start_reduce_scatter_sum(std::span<std::byte> values, DType type,
                                         std::span<const OwnedRange> parts) override {
    require_parts(parts, values.size() / size_of(type), size_);
    return enter(values.size(), 0);
  }
  std::uint64_t start_all_gather(std::span<std::byte> values,
                                 std::span<const OwnedRange> parts) override {
    require_parts(parts, values.size(), size_);
    return enter(0, values.size());
  }
  std::uint64_t start_broadcast(std::span<std::byte>, int) override { return enter(0, 0); }
  void wait(std::uint64_t) override { check(); }
  void make_wait(std::uint64_t, const CudaQueue&) override { check(); }
  void come_after(const CudaQueue&) override {}
  void check() override {
    if (aborted_) throw aborted_error();
  }

  std::uint64_t reduced_bytes() const override { return reduced_bytes_; }
  std::uint64_t gathered_bytes() const override { return gathered_bytes_; }
  std::uint64_t sequence() const override { return sequence_; }
  void abort() noexcept override { aborted_ = true; }

 private:
  std::uint64_t enter(std::uint64_t reduced, std::uint64_t gathered) {
    check();
    reduced_bytes_ += reduced;
    gathered_bytes_ += gathered;
    return ++sequence_;
  }
  const int rank_, size_;
  std::atomic<bool> aborted_{false};
  std::uint64_t sequence_ = 0;
  std::uint64_t reduced_bytes_ = 0, gathered_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator(int rank, int size) {
  return std::make_unique<SelfCommunicator>(rank, size);
}

}  // namespace hgt
