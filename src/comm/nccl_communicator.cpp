#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/comm/connect.h"
#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/parallel/range.h"
#include "hgtrain/parallel/shared_pieces.h"

#include "announcement.h"
#include "cuda_comm_table.h"
#include "staged_parts.h"

namespace hgt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLeaveTimeout{5000}, kWatchInterval{20};
constexpr std::chrono::microseconds kPollInterval{20};
constexpr int kEagerPolls = 200;                                ///< NCCL is usually ready at once
constexpr std::size_t kMaxStagedBytes = std::size_t{32} << 20;  ///< bytes

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

/// Collectives on a queue of their own. The caller queues those of device memory, and the host
/// never waits for them; a thread watches them, and aborts NCCL if they fail or take too long.
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
        comm_(comm) {
    try {
      if (options.rounds_once && options.size > 1) received_.reset(allocate(kReceivedBytes));
      wait_until_ready(Clock::now() + options.timeout);
    } catch (Error& error) {
      abort_nccl();
      error.in("connecting over NCCL");
      throw;
    }
    watcher_ = std::thread([this] { watch(); });
  }

  ~NcclCommunicator() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    closed_.notify_all();
    watcher_.join();
    if (failure_ || !all_done())
      abort_nccl();
    else
      leave();
  }

  /// Null on a rank that is not in the group.
  std::unique_ptr<NcclCommunicator> split(const GroupOptions& group) {
    check();
    const int color = group.size == 0 ? -1 : group.members.front();
    CudaCommState* part = nullptr;
    try {
      with_comm([&] { return nccl_.start_split(comm_, color, group.rank, group.size, &part); });
      wait_until_ready(Clock::now() + options_.timeout);
    } catch (Error& error) {
      fail(error.in("splitting over NCCL"));
      abort_nccl();
      if (part != nullptr) (void)nccl_.abort(part);
      throw;
    }
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
          enter([&] {
            return nccl_.all_gather_parts(comm_, values.data(), bytes.data(), bytes.size(),
                                          queue_.state());
          });
        });
      });
    return run_collective(sum_of(values, type), [&](const Announcement& what) {
      on_device(what, values, [&](std::byte* data, std::size_t bytes) {
        return nccl_.sum(comm_, data, bytes / size_of(type), type, queue_.state());
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
                    [&](std::byte* data, std::span<const OwnedRange> owned) {
                      return nccl_.reduce_scatter(comm_, data, type, owned.data(), owned.size(),
                                                  queue_.state());
                    });
  }
  std::uint64_t start_all_gather(std::span<std::byte> values,
                                 std::span<const OwnedRange> parts) override {
    require_parts(parts, values.size(), size());
    gathered_bytes_ += values.size();
    count_sent(peers() * elements_of(parts, rank()));
    return by_parts(Announcement::kAllGather, values, DType::kU8, parts,
                    [&](std::byte* data, std::span<const OwnedRange> owned) {
                      return nccl_.all_gather_parts(comm_, data, owned.data(), owned.size(),
                                                    queue_.state());
                    });
  }

  std::uint64_t start_broadcast(std::span<std::byte> bytes, int root) override {
    if (root == rank()) count_sent(bytes.size());
    return run_collective({.count = bytes.size(), .kind = Announcement::kBroadcast, .root = root},
                          [&](const Announcement& what) {
                            on_device(what, bytes, [&](std::byte* data, std::size_t count) {
                              return nccl_.broadcast(comm_, data, count, root, queue_.state());
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
    const std::lock_guard lock(mutex_);
    for (const PendingCollective& one : pending_)
      if (one.what.sequence == ticket) one.finished.make_wait(queue);
  }
  void come_after(const CudaQueue& queue) override {
    CudaEvent event(queue);
    event.record(queue);
    event.make_wait(queue_);
  }
  void check() override {
    const std::lock_guard lock(mutex_);
    if (failure_) throw Error(*failure_);
  }

  std::uint64_t reduced_bytes() const override { return reduced_bytes_; }
  std::uint64_t gathered_bytes() const override { return gathered_bytes_; }
  std::uint64_t sequence() const override { return sequence_; }

  void abort() noexcept override {
    fail(Error(ErrorKind::kPeer, "communication was aborted"));
    abort_nccl();
  }

 private:
  /// A collective of device memory that has been queued on the device.
  struct PendingCollective {
    Announcement what;
    CudaEvent entered, finished;
    std::optional<Clock::time_point> since = {};  ///< when it was first seen to be entered
  };

  /// Runs the collective, and records its failure.
  template <class Body>
  std::uint64_t run_collective(Announcement what, const Body& body) {
    check();
    what.sequence = ++sequence_;
    ++channel_.progress().collective;
    try {
      body(what);
    } catch (Error& error) {
      fail(error.in(what.text()));
      abort_nccl();
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
        return queue(what, [&] { enter([&] { return call(values.data(), parts); }); });
      require_same_collective(what);
      const std::size_t bytes =
          std::min(values.size() * static_cast<std::size_t>(size()), kMaxStagedBytes);
      if (bytes == 0) return;
      stage_parts(Staging{queue_, stage(bytes), bytes}, values, type, parts,
                  kind == Announcement::kReduceScatter, rank(), size(),
                  [&](std::span<std::byte> piece, std::span<const OwnedRange> packed) {
                    run([&] { return call(piece.data(), packed); });
                  });
    });
  }

  bool is_on_device(std::span<const std::byte> values) const {
    bool there = false;
    if (!values.empty()) hgt::check(queue_.module().device().on_device(values.data(), &there));
    return there;
  }

  /// Runs call(values in device memory, their bytes). Device memory is used in place: the call is
  /// queued after the work of the compute queue. Host memory is copied piece by piece, once all
  /// ranks agree, and copied back before this returns.
  template <class Call>
  void on_device(const Announcement& what, std::span<std::byte> values, const Call& call) {
    if (is_on_device(values))
      return queue(what, [&] { enter([&] { return call(values.data(), values.size()); }); });
    require_same_collective(what);
    for (std::size_t at = 0; at < values.size(); at += kMaxStagedBytes) {
      const auto piece = values.subspan(at, std::min(kMaxStagedBytes, values.size() - at));
      std::byte* const staged = stage(piece.size());
      queue_.copy(staged, piece.data(), piece.size());
      run([&] { return call(staged, piece.size()); });
      queue_.copy(piece.data(), staged, piece.size());
      queue_.synchronize();
    }
  }

  bool rounds_once(std::span<const std::byte> values, DType type) const {
    return received_ != nullptr && size_of(type) == 2 && is_on_device(values);
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
      enter([&] {
        return nccl_.exchange_parts(comm_, values, type, taken.data(), taken.size(),
                                    received_.get(), queue_.state());
      });
      enter([&] {
        return nccl_.add_received_parts(comm_, values, type, taken.data(), taken.size(),
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
    const std::lock_guard lock(mutex_);
    pending_.push_back(std::move(one));
  }

  /// Queues a collective and waits until it is done on the device.
  void run(const std::function<CudaResult()>& call) {
    const Clock::time_point deadline = Clock::now() + options_.timeout;
    with_comm(call);
    wait_until_ready(deadline);
    CudaEvent finished(queue_);
    finished.record(queue_);
    wait_until([&] { return finished.done() || (ready(), false); }, deadline);
  }

  void require_same_collective(const Announcement& mine) {
    const Span span("wait for peers");
    const auto ranks = static_cast<std::size_t>(size());
    std::vector<Announcement> all(ranks);
    std::byte* const ours = stage((1 + ranks) * sizeof mine);
    std::byte* const theirs = ours + sizeof mine;
    queue_.copy(ours, &mine, sizeof mine);
    run([&] { return nccl_.all_gather(comm_, ours, theirs, sizeof mine, queue_.state()); });
    queue_.copy(all.data(), theirs, ranks * sizeof mine);
    queue_.synchronize();
    require_agreement(mine, rank(), all);
  }

  /// Makes a call that queues, and waits until NCCL takes the next one.
  void enter(const std::function<CudaResult()>& call) {
    with_comm(call);
    wait_until_ready(Clock::now() + options_.timeout);
  }
  /// Makes a call with the communicator, unless it was aborted.
  void with_comm(const std::function<CudaResult()>& call) {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr) throw Error(failure_ ? *failure_ : Error(ErrorKind::kPeer, "aborted"));
    hgt::check(call());
  }
  /// Whether NCCL is ready; throws what failed here or at a peer.
  bool ready() {
    bool ready = false;
    with_comm([&] { return nccl_.poll(comm_, &ready); });
    return ready;
  }
  /// Polls until `condition` is true. Throws at the deadline.
  void wait_until(const std::function<bool()>& condition, Clock::time_point deadline) {
    for (int polls = 0; !condition(); ++polls) {
      if (options_.aborted != nullptr && *options_.aborted)
        throw Error(ErrorKind::kPeer, "aborted");
      if (Clock::now() >= deadline) throw timeout_error();
      if (polls < kEagerPolls)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(kPollInterval);
    }
  }
  void wait_until_ready(Clock::time_point deadline) {
    wait_until([&] { return ready(); }, deadline);
  }
  Error timeout_error() const {
    return Error(ErrorKind::kPeer,
                 fmt::format("the other ranks did not arrive within {:g} s",
                             static_cast<double>(options_.timeout.count()) * 1e-3));
  }

  /// The body of the watcher's thread.
  void watch() {
    name_thread("communication");
    std::unique_lock lock(mutex_);
    while (!closed_.wait_for(lock, kWatchInterval, [&] { return closing_; })) {
      if (failure_) continue;
      if (const auto error = poll_oldest()) {
        failure_ = error;
        lock.unlock();
        abort_nccl();
        lock.lock();
      }
    }
  }
  /// Removes finished collectives; returns what is wrong with the oldest of the others.
  std::optional<Error> poll_oldest() {
    try {
      while (!pending_.empty() && pending_.front().finished.done()) pending_.pop_front();
      if (pending_.empty()) return std::nullopt;
      PendingCollective& oldest = pending_.front();
      bool ready = false;
      if (comm_ != nullptr) hgt::check(nccl_.poll(comm_, &ready));
      if (!oldest.since && oldest.entered.done()) oldest.since = Clock::now();
      if (oldest.since && Clock::now() - *oldest.since >= options_.timeout) throw timeout_error();
      return std::nullopt;
    } catch (Error& error) {
      return error.in(pending_.front().what.text());
    }
  }

  bool all_done() const noexcept {
    try {
      return std::all_of(pending_.begin(), pending_.end(),
                         [](const PendingCollective& one) { return one.finished.done(); });
    } catch (const Error&) {
      return false;
    }
  }

  void fail(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = error;
  }
  /// Ends NCCL's work on this rank's device. Runs without the mutex: it may wait for peers on other
  /// machines, and callers must get the failure during that time.
  void abort_nccl() noexcept {
    CudaCommState* comm = nullptr;
    {
      const std::lock_guard lock(mutex_);
      comm = std::exchange(comm_, nullptr);
    }
    if (comm != nullptr) (void)nccl_.abort(comm);
  }
  /// The normal end: waits some seconds for ranks that are not done.
  void leave() noexcept {
    try {
      with_comm([&] { return nccl_.start_leave(comm_); });
      wait_until_ready(Clock::now() + kLeaveTimeout);
      (void)nccl_.destroy(std::exchange(comm_, nullptr));
    } catch (const std::exception&) {
      abort_nccl();
    }
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
  std::mutex mutex_;  ///< guards what follows
  CudaCommState* comm_ = nullptr;
  std::deque<PendingCollective> pending_;  ///< in the order of their numbers
  std::optional<Error> failure_;
  bool closing_ = false;
  std::condition_variable closed_;
  std::thread watcher_;
};

}  // namespace

std::unique_ptr<Communicator> connect_nccl(ControlChannel& channel, const CudaQueue& compute,
                                           const GroupOptions& options) {
  const CudaCommTable& nccl = compute.module().comm();
  const CudaCommId id = exchange_id(channel, nccl, options);
  CudaCommState* comm = nullptr;
  check(nccl.start_connect(&id, options.rank, options.size, compute.device().index, &comm));
  return std::make_unique<NcclCommunicator>(channel, compute, options, comm);
}

std::unique_ptr<Communicator> split_nccl(Communicator& world, const GroupOptions& group) {
  return dynamic_cast<NcclCommunicator&>(world).split(group);
}

}  // namespace hgt
