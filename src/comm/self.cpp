#include <atomic>

#include "hgtrain/base/error.h"
#include "hgtrain/comm/connect.h"

namespace hgt {
namespace {

class SelfCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }

  void all_reduce_sum(std::span<float> values) override { enter(values.size_bytes()); }
  void all_reduce_sum(std::span<double> values) override { enter(values.size_bytes()); }
  void broadcast(std::span<std::byte>, int) override { enter(0); }
  void barrier() override { enter(0); }

  std::uint64_t start_all_reduce_sum(std::span<float> values) override {
    enter(values.size_bytes());
    return sequence_;
  }
  void wait(std::uint64_t) override { check(); }
  void check() override {
    if (aborted_) throw Error(ErrorKind::kPeer, "the run was aborted");
  }

  std::uint64_t reduced_bytes() const override { return reduced_bytes_; }
  std::uint64_t sequence() const override { return sequence_; }
  void abort() noexcept override { aborted_ = true; }

 private:
  void enter(std::uint64_t bytes) {
    check();
    ++sequence_;
    reduced_bytes_ += bytes;
  }
  std::atomic<bool> aborted_{false};
  std::uint64_t sequence_ = 0;
  std::uint64_t reduced_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator() {
  return std::make_unique<SelfCommunicator>();
}

}  // namespace hgt
