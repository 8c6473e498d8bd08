#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hgt {

/// A group of ranks of one axis of the layout. All ranks call the same collectives in the same
/// order.
///
/// A blocking call returns once the result is visible. For device memory, the result is ordered
/// before any work that is queued on the compute stream after the call. `start_*` queues the
/// collective in call order and returns a ticket at once. The span must stay untouched until
/// `wait(ticket)` returns, or until a later collective is done: they complete in order.
/// Sums are bit-identical on all ranks, and from run to run for the same group size.
/// Every wait is bounded. Error(kPeer) names the collective and its number if it times out, if a
/// peer is lost, or if ranks disagree about what is reduced (each collective carries its number
/// and count). A communicator that threw must not be used again.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual void all_reduce_sum(std::span<float> values) = 0;
  virtual void all_reduce_sum(std::span<double> values) = 0;
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
  virtual void barrier() = 0;

  virtual std::uint64_t start_all_reduce_sum(std::span<float> values) = 0;
  virtual void wait(std::uint64_t ticket) = 0;

  /// Throws if a collective has failed so far; every later call throws then too.
  virtual void check() = 0;

  /// Payload bytes that this rank gave to sums so far: the reduced data, not a ring's traffic.
  virtual std::uint64_t reduced_bytes() const = 0;
  /// The number of collectives entered so far.
  virtual std::uint64_t sequence() const = 0;
  /// Makes every pending and later call throw. Any thread may call it.
  virtual void abort() noexcept = 0;
};

}  // namespace hgt
