#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "shared_segment.h"

namespace hgt {

/// Where the ranks of one machine lay pieces out for each other, turn by turn. A rank writes its
/// piece of the open turn, then calls next_turn(), which returns when all have. From then on it may
/// read all pieces of that turn, and change what of them no other rank reads or changes, until it
/// calls next_turn() again; what it changed can be read by all from then on until one turn later.
/// Three sets of pieces go round, so that a turn takes one wait.
///
/// One thread uses it; abort() is for any thread.
class SharedBoard {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
  static std::size_t bytes(int size);

  /// The segment is all zeros, or in use by the other ranks in the same way.
  SharedBoard(SharedSegment segment, int rank, int size, std::chrono::milliseconds timeout);

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// A rank's piece of the open turn (`age` 0), of the last one (1), or of the one before (2).
  std::span<std::byte> piece(int rank, std::size_t age) const;
  /// Error(kPeer) names the rank that did not come within the timeout, or is gone.
  void next_turn();
  void abort() noexcept;

 private:
  /// How many turns a rank has ended, modulo 2^32: a futex, in a cache line of its own.
  std::atomic<std::uint32_t>& ended(int rank) const;
  void await(int peer);

  const SharedSegment segment_;
  const int rank_, size_;
  const std::chrono::milliseconds timeout_;
  std::uint64_t turn_ = 0;  ///< the open one
  std::atomic<bool> aborted_{false};
};

}  // namespace hgt
