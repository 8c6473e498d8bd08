#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/comm/connect.h"
#include "hgtrain/parallel/range.h"

#include "collectives.h"
#include "parts.h"
#include "rank_order.h"
#include "shared_board.h"

namespace hgt {
namespace {

/// Works turn by turn over a board. Each rank sums its part of all ranks' pieces, in rank order.
class SharedMemoryCollectives final : public Collectives {
 public:
  SharedMemoryCollectives(SharedSegment segment, const GroupOptions& options)
      : board_(std::move(segment), options) {}

  int rank() const override { return board_.rank(); }
  int size() const override { return board_.size(); }
  void sum(std::span<std::byte> values, DType type) override {
    visit_values(values, type, [&](auto typed) { sum_pieces(typed); });
  }
  void leave() noexcept override {}  // late ranks still have the memory
  void abort() noexcept override { board_.abort(); }

  void reduce_scatter(std::span<std::byte> values, DType type,
                      std::span<const OwnedRange> parts) override {
    visit_values(values, type, [&](auto typed) { sum_own_parts(typed, parts); });
  }

  void all_gather(std::span<std::byte> values, std::span<const OwnedRange> parts) override {
    constexpr std::int64_t kMaxBytes = SharedBoard::kPieceBytes;
    PartsLeft left(parts, size());
    for (std::int64_t turns = left.turns(kMaxBytes); turns > 0; --turns) {
      std::byte* to = board_.piece(rank(), 0).data();
      for (const Range& range : left.take(rank(), kMaxBytes))
        to = std::copy_n(values.data() + range.begin, range.size(), to);
      board_.next_turn();
      for (int owner = 0; owner < size(); ++owner) {
        if (owner == rank()) continue;
        const std::byte* from = board_.piece(owner, 1).data();
        for (const Range& range : left.take(owner, kMaxBytes)) {
          std::copy_n(from, range.size(), values.data() + range.begin);
          from += range.size();
        }
      }
    }
  }

  void announce(std::span<const std::byte> mine, std::span<std::byte> all) override {
    for_pieces(mine.size(), [&](std::size_t at, std::size_t bytes) {
      std::memcpy(board_.piece(rank(), 0).data(), mine.data() + at, bytes);
      board_.next_turn();
      for (int peer = 0; peer < size(); ++peer)
        std::memcpy(all.data() + static_cast<std::size_t>(peer) * mine.size() + at,
                    board_.piece(peer, 1).data(), bytes);
    });
  }

  void broadcast(std::span<std::byte> bytes, int root) override {
    for_pieces(bytes.size(), [&](std::size_t at, std::size_t count) {
      if (rank() == root) std::memcpy(board_.piece(root, 0).data(), bytes.data() + at, count);
      board_.next_turn();
      if (rank() != root) std::memcpy(bytes.data() + at, board_.piece(root, 1).data(), count);
    });
  }

 private:
  template <class Fn>
  static void for_pieces(std::size_t bytes, const Fn& fn) {
    for (std::size_t at = 0; at < bytes; at += SharedBoard::kPieceBytes)
      fn(at, std::min(SharedBoard::kPieceBytes, bytes - at));
  }

  template <class T>
  std::span<T> piece(int peer, std::size_t age, std::size_t count) const {
    return {reinterpret_cast<T*>(board_.piece(peer, age).data()), count};
  }

  /// Slabs begin at cache lines.
  template <class T>
  std::int64_t slab_elements() const {
    constexpr std::size_t kLine = 64;
    const auto others = static_cast<std::size_t>(std::max(1, size() - 1));
    return static_cast<std::int64_t>(SharedBoard::kPieceBytes / others / kLine * kLine / sizeof(T));
  }
  template <class T>
  T* slab_of(int peer, std::size_t age, int owner) const {
    const int slab = owner < peer ? owner : owner - 1;
    return reinterpret_cast<T*>(board_.piece(peer, age).data()) + slab * slab_elements<T>();
  }

  /// A piece has a slab for each other rank, so that all ranks sum in each turn, even those that
  /// own little.
  template <class T>
  void sum_own_parts(std::span<T> values, std::span<const OwnedRange> parts) {
    const std::int64_t slab = slab_elements<T>();
    PartsLeft left(parts, size());
    for (std::int64_t turns = left.turns(slab); turns > 0; --turns) {
      for (int owner = 0; owner < size(); ++owner) {
        if (owner == rank()) continue;
        T* to = slab_of<T>(rank(), 0, owner);
        for (const Range& range : left.take(owner, slab))
          to = std::copy_n(values.data() + range.begin, range.size(), to);
      }
      board_.next_turn();
      std::int64_t at = 0;
      for (const Range& range : left.take(rank(), slab)) {
        const std::span<T> sums = values.subspan(range.begin, range.size());
        sum_in_rank_order(sums, size(), [&](int peer) -> const T* {
          return peer == rank() ? sums.data() : slab_of<T>(peer, 1, rank()) + at;
        });
        at += range.size();
      }
    }
  }

  /// While one piece is summed, the next one is laid out: one wait per piece.
  template <class T>
  void sum_pieces(std::span<T> values) {
    std::span<T> before;
    for (std::span<T> rest = values; !rest.empty() || !before.empty();) {
      const std::span<T> now =
          rest.first(std::min(rest.size(), SharedBoard::kPieceBytes / sizeof(T)));
      rest = rest.subspan(now.size());
      std::copy(now.begin(), now.end(), piece<T>(rank(), 0, now.size()).begin());
      board_.next_turn();
      take_sums(before);
      add_own_part<T>(now.size());
      before = now;
    }
  }

  static Range part_of(std::size_t count, int ranks, int p) {
    return even_range(static_cast<std::int64_t>(count), ranks, p);
  }

  /// Sums the last turn's pieces; the sums replace this rank's own numbers.
  template <class T>
  void add_own_part(std::size_t count) {
    const Range part = part_of(count, size(), rank());
    const auto operand = [&](int peer) {
      return piece<T>(peer, 1, count).subspan(part.begin, part.size()).data();
    };
    sum_in_rank_order(std::span<T>(operand(rank()), part.size()), size(), operand);
  }

  /// Reads the sums of the turn before the last.
  template <class T>
  void take_sums(std::span<T> out) {
    for (int peer = 0; peer < size(); ++peer) {
      const Range part = part_of(out.size(), size(), peer);
      const T* const sums = piece<T>(peer, 2, out.size()).data();
      std::copy(sums + part.begin, sums + part.end, out.begin() + part.begin);
    }
  }

  SharedBoard board_;
};

}  // namespace

std::unique_ptr<Communicator> connect_shared_memory(ControlChannel& channel,
                                                    const GroupOptions& options) {
  std::optional<SharedSegment> segment = share_segment(channel, options);
  if (!segment) return nullptr;
  return make_queued_communicator(
      channel, std::make_unique<SharedMemoryCollectives>(std::move(*segment), options), options);
}

}  // namespace hgt
