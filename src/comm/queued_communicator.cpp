#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/exception.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/device/thread_pool.h"

#include "aborted.h"
#include "announcement.h"
#include "collectives.h"
#include "parts.h"

namespace hgt {
namespace {

/// Runs the collectives in call order on a thread of its own.
class QueuedCommunicator final : public Communicator {
 public:
  QueuedCommunicator(ControlChannel& channel, std::unique_ptr<Collectives> collectives,
                     const GroupOptions& options)
      : channel_(channel),
        collectives_(std::move(collectives)),
        thread_name_(options.thread_name),
        peer_stage_(options.peer_stage),
        thread_([this] { serve(); }) {}

  ~QueuedCommunicator() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      if (!tasks_.empty() || running_) collectives_->abort();
    }
    changed_.notify_all();
    thread_.join();
    if (!failure_) collectives_->leave();
  }

  int rank() const override { return collectives_->rank(); }
  int size() const override { return collectives_->size(); }

  std::uint64_t start_all_reduce_sum(std::span<std::byte> values, DType type) override {
    reduced_bytes_ += values.size();
    count_sent(2 * peers() * values.size() / (peers() + 1));
    return enter(sum_of(values, type), [this, values, type] { collectives_->sum(values, type); });
  }
  std::uint64_t start_reduce_scatter_sum(std::span<std::byte> values, DType type,
                                         std::span<const OwnedRange> parts) override {
    require_parts(parts, values.size() / size_of(type), size());
    reduced_bytes_ += values.size();
    count_sent(values.size() - elements_of(parts, rank()) * size_of(type));
    return enter(with_parts(Announcement::kReduceScatter, values, type, parts),
                 [this, values, type, own = std::vector(parts.begin(), parts.end())] {
                   collectives_->reduce_scatter(values, type, own);
                 });
  }
  std::uint64_t start_all_gather(std::span<std::byte> values,
                                 std::span<const OwnedRange> parts) override {
    require_parts(parts, values.size(), size());
    gathered_bytes_ += values.size();
    count_sent(peers() * elements_of(parts, rank()));
    return enter(with_parts(Announcement::kAllGather, values, DType::kU8, parts),
                 [this, values, own = std::vector(parts.begin(), parts.end())] {
                   collectives_->all_gather(values, own);
                 });
  }
  std::uint64_t start_broadcast(std::span<std::byte> bytes, int root) override {
    if (root == rank()) count_sent(bytes.size());
    return enter({.count = bytes.size(), .kind = Announcement::kBroadcast, .root = root},
                 [this, bytes, root] { collectives_->broadcast(bytes, root); });
  }
  void barrier() override {
    wait(enter({.kind = Announcement::kBarrier}, [] {}));
  }

  void wait(std::uint64_t ticket) override {
    const std::int64_t begun_ns = now_ns();
    std::unique_lock lock(mutex_);
    channel_.progress().wait(thread_name_, ticket, [&] {
      // The caller may free the memory afterwards, so it is not in use even if there is a failure.
      changed_.wait(lock, [&] { return finished_ >= ticket || (failure_ && !running_); });
      waited_ns_ += now_ns() - begun_ns;
      require_no_failure();
    });
  }
  void make_wait(std::uint64_t ticket, const CudaQueue&) override { wait(ticket); }
  void come_after(const CudaQueue& queue) override { queue.synchronize(); }

  void check() override {
    const std::lock_guard lock(mutex_);
    require_no_failure();
  }

  std::uint64_t reduced_bytes() const override { return reduced_bytes_; }
  std::uint64_t gathered_bytes() const override { return gathered_bytes_; }
  std::uint64_t sequence() const override { return sequence_; }
  std::int64_t waited_ns() const override { return waited_ns_; }

  void abort() noexcept override {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = aborted_error();
    }
    changed_.notify_all();
    collectives_->abort();
  }

 private:
  struct Task {
    Announcement announcement;
    std::function<void()> run;
  };

  /// Call it with the mutex locked.
  void require_no_failure() const {
    if (failure_) throw Error(*failure_);
  }

  std::uint64_t enter(Announcement what, std::function<void()> run) {
    const std::lock_guard lock(mutex_);
    require_no_failure();
    collectives_->entered();
    what.sequence = ++sequence_;
    ++channel_.progress().collective;
    tasks_.push_back({what, std::move(run)});
    changed_.notify_all();
    return what.sequence;
  }

  void serve() {
    prepare_compute_thread();  // it computes sums
    name_thread(thread_name_);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return closing_ || failure_ || !tasks_.empty(); });
      if (closing_ || failure_) return;
      const Task task = std::move(tasks_.front());
      tasks_.pop_front();
      running_ = true;
      lock.unlock();
      std::optional<Error> failure;
      try {
        const Span span = span_of(task.announcement);
        require_same_collective(task.announcement);
        const Span transfer("transfer", Work{.bytes = task.announcement.bytes()});
        task.run();
      } catch (const std::exception& e) {
        failure = error_from(e);
        failure->in(task.announcement.text());
      }
      lock.lock();
      running_ = false;
      finished_ = task.announcement.sequence;
      if (failure && !failure_) failure_ = std::move(failure);
      changed_.notify_all();
    }
  }

  Span span_of(const Announcement& what) const {
    if (!peer_stage_ || what.kind != Announcement::kBroadcast)
      return Span::collective(what.name(), static_cast<std::int64_t>(what.sequence));
    return Span::phase(what.root == rank() ? "send to stage" : "receive from stage", *peer_stage_);
  }

  void require_same_collective(const Announcement& mine) {
    const Span span("wait for peers");
    std::vector<Announcement> all(static_cast<std::size_t>(size()));
    collectives_->announce(std::as_bytes(std::span(&mine, 1)),
                           std::as_writable_bytes(std::span(all)));
    require_agreement(mine, rank(), all);
  }

  ControlChannel& channel_;
  const std::unique_ptr<Collectives> collectives_;
  const char* const thread_name_;
  const std::optional<int> peer_stage_;
  std::atomic<std::uint64_t> reduced_bytes_{0}, gathered_bytes_{0};
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<std::int64_t> waited_ns_{0};
  std::mutex mutex_;  ///< guards everything below
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool running_ = false;
  bool closing_ = false;
  std::uint64_t finished_ = 0;
  std::optional<Error> failure_;
  std::thread thread_;  ///< last: it uses all of the above
};

}  // namespace

std::unique_ptr<Communicator> make_queued_communicator(ControlChannel& channel,
                                                       std::unique_ptr<Collectives> collectives,
                                                       const GroupOptions& options) {
  return std::make_unique<QueuedCommunicator>(channel, std::move(collectives), options);
}

}  // namespace hgt
