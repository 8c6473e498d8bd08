#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "hgtrain/base/error.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/comm/connect.h"
#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/parallel/range.h"
#include "hgtrain/parallel/shared_pieces.h"

#include "aborted.h"
#include "announcement.h"
#include "collective_watch.h"
#include "cuda_comm_table.h"
#include "nccl_connection.h"
#include "staged_parts.h"

namespace hgt {
namespace {

constexpr std::size_t kMaxStagedBytes = std::size_t{32} << 20;

/// Collectives on a queue of their own. The caller queues those of device memory, and the host
/// never waits for them (CollectiveWatch).
class NcclCommunicator final : public Communicator {
 public:
  /// `comm`: a communicator that is connecting.
  NcclCommunicator(ControlChannel& channel, const CudaQueue& compute, const GroupOptions& options,
                   CudaCommState* comm)
      : channel_(channel),
        options_(options),
        compute_(compute),
        queue_(compute.device(), compute.module()),
        nccl_(compute.module().comm()),
        staging_(nullptr, [this](void* memory) { release(memory); }),
        received_(nullptr, [this](void* memory) { release(memory); }),
        connection_(nccl_, options, comm) {
    try {
      if (options.rounds_once && options.size > 1) received_.reset(allocate(kReceivedBytes));
      connection_.wait_until_ready(connection_.deadline());
      if (received_) load_kernels();
    } catch (Error& error) {
      connection_.abort();
      error.in("connecting over NCCL");
      throw;
    }
    watch_.emplace(connection_);
  }

  ~NcclCommunicator() override {
    watch_->stop();
    if (connection_.has_failed() || !watch_->all_done())
      connection_.abort();
    else
      connection_.leave();
  }

  /// Null on a rank that is not in the group.
  std::unique_ptr<NcclCommunicator> split(const GroupOptions& group) {
    CudaCommState* const part = connection_.split(group);
    if (part == nullptr) return nullptr;
    return std::make_unique<NcclCommunicator>(channel_, compute_, group, part);
  }

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }

  std::uint64_t start_all_reduce_sum(std::span<std::byte> values, DType type) override {
    reduced_bytes_ += values.size();
    count_sent(2 * peers() * values.size() / (peers() + 1));
    if (rounds_once(values, type))
      return run_collective(sum_of(values, type), [&](const Announcement& what) {
        const std::vector<OwnedRange> parts =
            even_parts(static_cast<std::int64_t>(values.size() / size_of(type)), size());
        queue(what, [&] {
          add_in_fp32(values.data(), type, parts);
          const std::vector<OwnedRange> bytes =
              counted_in_bytes(parts, static_cast<std::int64_t>(size_of(type)));
          connection_.enter([&](CudaCommState* comm) {
            return nccl_.all_gather_parts(comm, values.data(), bytes.data(), bytes.size(),
                                          queue_.state());
          });
        });
      });
    return run_collective(sum_of(values, type), [&](const Announcement& what) {
      on_device(what, values, [&](CudaCommState* comm, std::byte* data, std::size_t bytes) {
        return nccl_.sum(comm, data, bytes / size_of(type), type, queue_.state());
      });
    });
  }
  std::uint64_t start_reduce_scatter_sum(std::span<std::byte> values, DType type,
                                         std::span<const OwnedRange> parts) override {
    require_parts(parts, values.size() / size_of(type), size());
    reduced_bytes_ += values.size();
    count_sent(values.size() - elements_of(parts, rank()) * size_of(type));
    if (rounds_once(values, type))
      return run_collective(with_parts(Announcement::kReduceScatter, values, type, parts),
                            [&](const Announcement& what) {
                              queue(what, [&] { add_in_fp32(values.data(), type, parts); });
                            });
    return by_parts(Announcement::kReduceScatter, values, type, parts,
                    [&](CudaCommState* comm, std::byte* data, std::span<const OwnedRange> owned) {
                      return nccl_.reduce_scatter(comm, data, type, owned.data(), owned.size(),
                                                  queue_.state());
                    });
  }
  std::uint64_t start_all_gather(std::span<std::byte> values,
                                 std::span<const OwnedRange> parts) override {
    require_parts(parts, values.size(), size());
    gathered_bytes_ += values.size();
    count_sent(peers() * elements_of(parts, rank()));
    return by_parts(Announcement::kAllGather, values, DType::kU8, parts,
                    [&](CudaCommState* comm, std::byte* data, std::span<const OwnedRange> owned) {
                      return nccl_.all_gather_parts(comm, data, owned.data(), owned.size(),
                                                    queue_.state());
                    });
  }

  std::uint64_t start_broadcast(std::span<std::byte> bytes, int root) override {
    if (root == rank()) count_sent(bytes.size());
    return run_collective(
        {.count = bytes.size(), .kind = Announcement::kBroadcast, .root = root},
        [&](const Announcement& what) {
          on_device(what, bytes, [&](CudaCommState* comm, std::byte* data, std::size_t count) {
            return nccl_.broadcast(comm, data, count, root, queue_.state());
          });
        });
  }
  void barrier() override {
    run_collective({.kind = Announcement::kBarrier},
                   [&](const Announcement& what) { require_same_collective(what); });
  }

  void wait(std::uint64_t ticket) override { make_wait(ticket, compute_); }
  void make_wait(std::uint64_t ticket, const CudaQueue& queue) override {
    check();
    watch_->make_wait(ticket, queue);
  }
  void come_after(const CudaQueue& queue) override {
    CudaEvent event(queue);
    event.record(queue);
    event.make_wait(queue_);
  }
  void check() override { connection_.check(); }

  std::uint64_t reduced_bytes() const override { return reduced_bytes_; }
  std::uint64_t gathered_bytes() const override { return gathered_bytes_; }
  std::uint64_t sequence() const override { return sequence_; }

  void abort() noexcept override {
    connection_.fail(aborted_error());
    connection_.abort();
  }

 private:
  /// Runs the collective, and records its failure.
  template <class Body>
  std::uint64_t run_collective(Announcement what, const Body& body) {
    check();
    what.sequence = ++sequence_;
    ++channel_.progress().collective;
    try {
      body(what);
    } catch (Error& error) {
      connection_.fail(error.in(what.text()));
      connection_.abort();
      queue_.synchronize();  // nothing of it still runs: the caller may free the memory
      check();
    }
    return what.sequence;
  }

  /// Device memory is used in place, host memory turn by turn; see on_device.
  template <class Call>
  std::uint64_t by_parts(Announcement::Kind kind, std::span<std::byte> values, DType type,
                         std::span<const OwnedRange> parts, const Call& call) {
    return run_collective(with_parts(kind, values, type, parts), [&](const Announcement& what) {
      if (is_on_device(values))
        return queue(what, [&] {
          connection_.enter([&](CudaCommState* comm) { return call(comm, values.data(), parts); });
        });
      require_same_collective(what);
      const std::size_t bytes =
          std::min(values.size() * static_cast<std::size_t>(size()), kMaxStagedBytes);
      if (bytes == 0) return;
      stage_parts(Staging{queue_, stage(bytes), bytes}, values, type, parts,
                  kind == Announcement::kReduceScatter, rank(), size(),
                  [&](std::span<std::byte> piece, std::span<const OwnedRange> packed) {
                    run([&](CudaCommState* comm) { return call(comm, piece.data(), packed); });
                  });
    });
  }

  bool is_on_device(std::span<const std::byte> values) const {
    bool there = false;
    if (!values.empty()) hgt::check(queue_.module().device().on_device(values.data(), &there));
    return there;
  }

  /// Runs call(NCCL's communicator, values in device memory, their bytes). Device memory is used in
  /// place: the call is queued after the work of the compute queue. Host memory is copied piece by
  /// piece, once all ranks agree, and copied back before this returns.
  template <class Call>
  void on_device(const Announcement& what, std::span<std::byte> values, const Call& call) {
    if (is_on_device(values))
      return queue(what, [&] {
        connection_.enter(
            [&](CudaCommState* comm) { return call(comm, values.data(), values.size()); });
      });
    require_same_collective(what);
    for (std::size_t at = 0; at < values.size(); at += kMaxStagedBytes) {
      const auto piece = values.subspan(at, std::min(kMaxStagedBytes, values.size() - at));
      std::byte* const staged = stage(piece.size());
      queue_.copy(staged, piece.data(), piece.size());
      run([&](CudaCommState* comm) { return call(comm, staged, piece.size()); });
      queue_.copy(piece.data(), staged, piece.size());
      queue_.synchronize();
    }
  }

  bool rounds_once(std::span<const std::byte> values, DType type) const {
    return received_ != nullptr && size_of(type) == 2 && is_on_device(values);
  }
  /// CUDA waits for all work of the device when it first launches a kernel: later that may be a
  /// transfer of a pipeline, whose peer waits for this rank.
  void load_kernels() {
    constexpr std::size_t kApart = 256;
    const OwnedRange one{{0, 1}, rank()};
    auto* const memory = static_cast<std::byte*>(received_.get());
    for (const DType type : {DType::kBF16, DType::kF16})
      connection_.enter([&](CudaCommState* comm) {
        return nccl_.add_received_parts(comm, memory, type, &one, 1, memory + kApart,
                                        queue_.state());
      });
    queue_.synchronize();
  }
  /// Queues a reduce-scatter of 16-bit values, turn by turn.
  void add_in_fp32(std::byte* values, DType type, std::span<const OwnedRange> parts) {
    const std::int64_t max_elements = kReceivedBytes / static_cast<std::int64_t>(size_of(type)) /
                                      static_cast<std::int64_t>(peers());
    PartsLeft left(parts, size());
    for (std::int64_t turns = left.turns(max_elements); turns > 0; --turns) {
      std::vector<OwnedRange> taken;
      for (const PackedPart& part : left.take_packed(max_elements))
        taken.push_back({part.elements, part.packed.rank});
      connection_.enter([&](CudaCommState* comm) {
        return nccl_.exchange_parts(comm, values, type, taken.data(), taken.size(), received_.get(),
                                    queue_.state());
      });
      connection_.enter([&](CudaCommState* comm) {
        return nccl_.add_received_parts(comm, values, type, taken.data(), taken.size(),
                                        received_.get(), queue_.state());
      });
    }
  }

  /// Runs `body`, which enters NCCL's calls, after the work of the compute queue.
  void queue(const Announcement& what, const std::function<void()>& body) {
    PendingCollective one{what, CudaEvent(compute_), CudaEvent(queue_)};
    one.entered.record(compute_);
    one.entered.make_wait(queue_);
    body();
    one.finished.record(queue_);
    watch_->add(std::move(one));
  }

  /// Queues a collective and waits until it is done on the device.
  void run(const NcclConnection::Call& call) {
    const NcclConnection::Clock::time_point deadline = connection_.deadline();
    connection_.call(call);
    connection_.wait_until_ready(deadline);
    CudaEvent finished(queue_);
    finished.record(queue_);
    connection_.wait_until(
        [&] {
          if (finished.done()) return true;
          (void)connection_.ready();  // throws if the collective has failed
          return false;
        },
        deadline);
  }

  void require_same_collective(const Announcement& mine) {
    const Span span("wait for peers");
    const auto ranks = static_cast<std::size_t>(size());
    std::vector<Announcement> all(ranks);
    std::byte* const ours = stage((1 + ranks) * sizeof mine);
    std::byte* const theirs = ours + sizeof mine;
    queue_.copy(ours, &mine, sizeof mine);
    run([&](CudaCommState* comm) {
      return nccl_.all_gather(comm, ours, theirs, sizeof mine, queue_.state());
    });
    queue_.copy(all.data(), theirs, ranks * sizeof mine);
    queue_.synchronize();
    require_agreement(mine, rank(), all);
  }

  /// Device memory for collectives of host memory. Grows to the largest request and stays.
  std::byte* stage(std::size_t bytes) {
    if (bytes > staging_bytes_) {
      staging_.reset();
      staging_bytes_ = 0;
      staging_.reset(allocate(bytes));
      staging_bytes_ = bytes;
    }
    return static_cast<std::byte*>(staging_.get());
  }
  void* allocate(std::size_t bytes) {
    void* memory = nullptr;
    hgt::check(queue_.module().device().allocate(queue_.device().index, bytes, &memory));
    return memory;
  }
  void release(void* memory) {
    (void)queue_.module().device().release(queue_.device().index, memory);
  }

  ControlChannel& channel_;
  const GroupOptions options_;
  const CudaQueue& compute_;
  const CudaQueue queue_;
  const CudaCommTable& nccl_;
  std::unique_ptr<void, std::function<void(void*)>> staging_, received_;
  std::size_t staging_bytes_ = 0;
  std::atomic<std::uint64_t> reduced_bytes_{0}, gathered_bytes_{0}, sequence_{0};
  NcclConnection connection_;
  std::optional<CollectiveWatch> watch_;  ///< once connected
};

}  // namespace

std::unique_ptr<Communicator> connect_nccl(ControlChannel& channel, const CudaQueue& compute,
                                           const GroupOptions& options) {
  return std::make_unique<NcclCommunicator>(channel, compute, options,
                                            start_connecting(channel, compute, options));
}

std::unique_ptr<Communicator> split_nccl(Communicator& world, const GroupOptions& group) {
  return dynamic_cast<NcclCommunicator&>(world).split(group);
}

}  // namespace hgt
