#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "hgtrain/parallel/shards.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

class CudaQueue;

/// The bytes of a contiguous tensor.
inline std::span<std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.raw()), tensor.bytes()};
}

/// A group of ranks of one axis of the layout. All ranks call the same collectives in the same
/// order.
///
/// A blocking call returns once the result is visible. For device memory, the result is ordered
/// before any work that is queued on the compute stream after the call. `start_*` queues the
/// collective in call order and returns a ticket at once. The span must stay untouched until
/// `wait(ticket)` returns or throws, or until a later collective is done: they complete in order.
/// Collectives in flight at the same time must not share memory.
/// Sums are bit-identical on all ranks, and from run to run for the same group size. On the CPU
/// each element is summed in rank order, rank 0's value first: all_reduce_sum, and
/// reduce_scatter_sum with any parts, give the same bits. NCCL chooses an order of its own. Sums of
/// 16-bit values are computed in fp32 and rounded once on the CPU; NCCL rounds after each addition,
/// unless its group's options say otherwise.
/// Every wait is bounded. Error(kPeer) names the collective and its number if it times out, if a
/// peer is lost, or if ranks disagree about it (each collective carries its number, its count and
/// a hash of its parts). A communicator that threw must not be used again.
///
/// `parts` say which rank owns what of the span. They are ascending, without gaps, and cover it; a
/// rank may own nothing or several parts. The same on all ranks. Needed only during the call.
/// Error(kInternal) if they do not cover the span, or name a rank that is not in the group; that
/// collective was not entered, and the communicator can still be used.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  void broadcast(std::span<std::byte> bytes, int root) { wait(start_broadcast(bytes, root)); }
  virtual void barrier() = 0;

  /// fp32, fp64, bf16 or fp16 values.
  virtual std::uint64_t start_all_reduce_sum(std::span<std::byte> values, DType type) = 0;
  /// Reduce-scatter in place, of values of the same types: the parts that this rank owns become the
  /// sums of all ranks' values. Its other parts are undefined afterwards. `parts` count values.
  virtual std::uint64_t start_reduce_scatter_sum(std::span<std::byte> values, DType type,
                                                 std::span<const OwnedRange> parts) = 0;
  /// All-gather in place: each owner's parts reach all ranks. `parts` count bytes.
  virtual std::uint64_t start_all_gather(std::span<std::byte> values,
                                         std::span<const OwnedRange> parts) = 0;
  virtual std::uint64_t start_broadcast(std::span<std::byte> bytes, int root) = 0;
  virtual void wait(std::uint64_t ticket) = 0;

  // For device memory whose copies run on another queue than the compute stream.
  /// Like wait(), but the result is ordered before the work that is queued on `queue` from now on.
  virtual void make_wait(std::uint64_t ticket, const CudaQueue& queue) = 0;
  /// Collectives that start from now on come after the work that `queue` has so far, too.
  virtual void come_after(const CudaQueue& queue) = 0;

  std::uint64_t start_all_reduce_sum(std::span<float> values) {
    return start_all_reduce_sum(std::as_writable_bytes(values), DType::kF32);
  }
  /// A contiguous tensor.
  std::uint64_t start_all_reduce_sum(const Tensor& values) {
    return start_all_reduce_sum(bytes_of(values), values.dtype());
  }
  void all_reduce_sum(std::span<float> values) { wait(start_all_reduce_sum(values)); }
  void all_reduce_sum(std::span<double> values) {
    wait(start_all_reduce_sum(std::as_writable_bytes(values), DType::kF64));
  }
  void all_reduce_sum(const Tensor& values) { wait(start_all_reduce_sum(values)); }
  std::uint64_t start_reduce_scatter_sum(std::span<float> values,
                                         std::span<const OwnedRange> parts) {
    return start_reduce_scatter_sum(std::as_writable_bytes(values), DType::kF32, parts);
  }
  void reduce_scatter_sum(std::span<float> values, std::span<const OwnedRange> parts) {
    wait(start_reduce_scatter_sum(values, parts));
  }
  /// A contiguous tensor.
  std::uint64_t start_reduce_scatter_sum(const Tensor& values, std::span<const OwnedRange> parts) {
    return start_reduce_scatter_sum(bytes_of(values), values.dtype(), parts);
  }
  void reduce_scatter_sum(const Tensor& values, std::span<const OwnedRange> parts) {
    wait(start_reduce_scatter_sum(values, parts));
  }
  void all_gather(std::span<std::byte> values, std::span<const OwnedRange> parts) {
    wait(start_all_gather(values, parts));
  }

  /// Throws if a collective has failed so far; every later call throws then too.
  virtual void check() = 0;

  /// Payload bytes of the all-reduces and reduce-scatters so far: the whole spans, not the traffic.
  virtual std::uint64_t reduced_bytes() const = 0;
  /// Payload bytes of the all-gathers so far: the whole spans, not the traffic.
  virtual std::uint64_t gathered_bytes() const = 0;
  /// What this rank sends its peers in the collectives so far, in bytes, if they send no more than
  /// they must. With N ranks that is 2 (N - 1) / N of the values of an all-reduce, the other ranks'
  /// parts of a reduce-scatter, N - 1 times its own parts of an all-gather, and from the root all
  /// of a broadcast, which the others pass on.
  std::uint64_t sent_bytes() const { return sent_bytes_; }
  /// The number of collectives entered so far.
  virtual std::uint64_t sequence() const = 0;
  /// How long the host has waited for collectives so far. It does not wait for those of NCCL.
  virtual std::int64_t waited_ns() const { return 0; }
  /// Makes every pending and later call throw: wait() does so once nothing uses the memory any
  /// more. Any thread may call it.
  virtual void abort() noexcept = 0;

 protected:
  void count_sent(std::uint64_t bytes) { sent_bytes_ += bytes; }
  std::uint64_t peers() const { return static_cast<std::uint64_t>(size()) - 1; }

 private:
  std::atomic<std::uint64_t> sent_bytes_{0};
};

}  // namespace hgt
