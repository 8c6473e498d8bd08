#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "hgtrain/comm/connect.h"
#include "hgtrain/parallel/shared_pieces.h"
#include "hgtrain/wire/control.h"

#include "shared_segment.h"

namespace hgt {

/// The memory through which the ranks of one machine exchange pieces, turn by turn. A rank writes
/// its piece of the open turn, then calls next_turn(), which returns when all have. After that it
/// may read all pieces of that turn, and change those parts that no other rank reads or changes,
/// until it calls next_turn() again; all ranks may read the changes from then until one turn later.
/// Three sets of pieces (kSharedTurns) are used in rotation, so that a turn takes one wait.
///
/// One thread uses it; any thread may call abort().
class SharedBoard {
 public:
  static constexpr auto kPieceBytes = static_cast<std::size_t>(kSharedPieceBytes);
  static std::size_t bytes(int size);

  /// The segment must be all zeros, or in use by the other ranks in the same way.
  SharedBoard(SharedSegment segment, const GroupOptions& options);

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// A rank's piece of the open turn (`age` 0), of the last turn (1), or of the turn before (2).
  std::span<std::byte> piece(int rank, std::size_t age) const;
  /// Error(kPeer) names the rank that did not come within the timeout, or is lost. While it waits,
  /// it calls `meanwhile`, if there is one, at least every 0.2 ms.
  void next_turn(const std::function<void()>& meanwhile = nullptr);
  void abort() noexcept;

 private:
  /// The number of turns a rank has ended, modulo 2^32: a futex, in a cache line of its own.
  std::atomic<std::uint32_t>& ended(int rank) const;
  void wait_for(int peer, const std::function<void()>& meanwhile);

  const SharedSegment segment_;
  const int rank_, size_;
  const GroupOptions options_;
  std::uint64_t turn_ = 0;  ///< number of the open turn
  std::atomic<bool> aborted_{false};
};

/// The segment for a board that ranks of one machine share; they meet through the channel's store.
/// nullopt on every rank if one of them cannot map it, for example because it runs on another
/// machine.
std::optional<SharedSegment> share_segment(ControlChannel& channel, const GroupOptions& options);

}  // namespace hgt
