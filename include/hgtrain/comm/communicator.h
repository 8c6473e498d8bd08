#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hgt {

/// A group of ranks of one axis of the layout. All ranks call the same collectives in the same
/// order.
///
/// Blocking calls return when the result is there; a GPU's, of its own memory, where what its
/// compute queue is given next finds it. `start_*` queues on the communicator's own
/// thread, in call order, and returns a ticket; the span must stay untouched until `wait(ticket)`,
/// or until a later collective is done: they are done in order.
/// Sums are bit-identical on all ranks and from run to run for the same group size.
/// Every wait is bounded: Error(kPeer) names the collective and its number on timeout, on a lost
/// peer, and where ranks disagree about what is being reduced (a collective carries its number and
/// count). A communicator that threw is of no further use.
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

  /// Throws what has gone wrong so far, as every later call will.
  virtual void check() = 0;

  /// Payload bytes this rank gave to sums so far: what was reduced, not what a ring sent for it.
  virtual std::uint64_t reduced_bytes() const = 0;
  /// Collectives entered so far.
  virtual std::uint64_t sequence() const = 0;
  /// Makes every pending and later call throw. From any thread.
  virtual void abort() noexcept = 0;
};

}  // namespace hgt
