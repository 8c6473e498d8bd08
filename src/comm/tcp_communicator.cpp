#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "hgtrain/parallel/range.h"

#include "collectives.h"
#include "parts.h"
#include "rank_order.h"
#include "tcp_transport.h"
#include "two_level_sum.h"

namespace hgt {
namespace {

constexpr std::size_t kMessageBytes = std::size_t{1} << 20;
// For fewer bytes, latency dominates, and two levels need more messages one after another.
constexpr std::size_t kTwoLevelBytes = std::size_t{64} << 10;

/// Collectives as messages of the transport.
class TcpCollectives final : public Collectives {
 public:
  TcpCollectives(ControlChannel& channel, const GroupOptions& options, const std::string& address)
      : transport_(channel, options, address),
        levels_(TwoLevelSum::connect(channel, options, transport_)) {}

  int rank() const override { return transport_.rank(); }
  int size() const override { return transport_.size(); }
  void announce(std::span<const std::byte> mine, std::span<std::byte> all) override {
    transport_.all_gather(mine, all);
  }
  void sum(std::span<std::byte> values, DType type) override {
    if (has_levels_for(values)) return levels_->sum(values, type);
    visit_values(values, type, [&](auto typed) { sum_in_parts(typed); });
  }
  void reduce_scatter(std::span<std::byte> values, DType type,
                      std::span<const OwnedRange> parts) override {
    if (has_levels_for(values)) return levels_->reduce_scatter(values, type, parts);
    visit_values(values, type, [&](auto typed) { sum_own_parts(typed, parts); });
  }
  void all_gather(std::span<std::byte> values, std::span<const OwnedRange> parts) override {
    if (has_levels_for(values)) return levels_->all_gather(values, parts);
    send_own_parts(values, parts);
  }
  void leave() noexcept override { transport_.leave(); }
  void abort() noexcept override {
    transport_.abort();
    if (levels_) levels_->abort();
  }

  /// The bytes pass along the ring from the root; a rank sends a piece while it gets the next.
  void broadcast(std::span<std::byte> bytes, int root) override {
    const int n = size(), hops = (rank() - root + n) % n;
    const std::size_t pieces = (bytes.size() + kMessageBytes - 1) / kMessageBytes;
    const auto piece = [&](std::size_t i) {
      return i < pieces ? bytes.subspan(i * kMessageBytes,
                                        std::min(kMessageBytes, bytes.size() - i * kMessageBytes))
                        : std::span<std::byte>();
    };
    for (std::size_t i = 0; i <= pieces; ++i) {
      const bool receives = hops > 0, sends = hops + 1 < n;
      const std::span<std::byte> in = receives ? piece(i) : std::span<std::byte>();
      const std::span<std::byte> out =
          sends ? (i > 0 ? piece(i - 1) : std::span<std::byte>()) : std::span<std::byte>();
      transport_.exchange(out, (rank() + 1) % n, in, (rank() + n - 1) % n);
    }
  }

 private:
  using Transfer = TcpTransport::Transfer;

  bool has_levels_for(std::span<const std::byte> values) const {
    return levels_ && values.size() >= kTwoLevelBytes;
  }

  /// Each rank sums a part of the values, and gives it to all.
  template <class T>
  void sum_in_parts(std::span<T> values) {
    const std::vector<OwnedRange> parts = even_parts(std::ssize(values), size());
    sum_own_parts(values, parts);
    send_own_parts(values, parts);
  }

  /// One turn of sum_own_parts, under way.
  template <class T>
  struct Turn {
    std::vector<Range> own;   ///< what this rank sums
    std::vector<T> received;  ///< the values of it of each rank in turn; this rank's are not used
    std::vector<Transfer> transfers;  ///< last: gone before the memory of the others
  };

  /// Every rank sends each owner its values of the owner's parts, piece by piece; while one piece
  /// is summed, the next ones are on their way.
  template <class T>
  void sum_own_parts(std::span<T> values, std::span<const OwnedRange> parts) {
    constexpr std::int64_t kPiece = kMessageBytes / sizeof(T);
    PartsLeft left(parts, size());
    const std::int64_t turns = left.turns(kPiece);
    std::array<Turn<T>, 2> both;
    for (std::int64_t turn = 0; turn <= turns; ++turn) {
      if (turn < turns) start(both[turn % 2], values, left, kPiece);
      if (turn > 0) finish(both[(turn - 1) % 2], values);
    }
  }

  template <class T>
  void start(Turn<T>& turn, std::span<T> values, PartsLeft& left, std::int64_t limit) {
    turn.own = left.take(rank(), limit);
    turn.received.resize(static_cast<std::size_t>(size() * elements(turn.own)));
    std::span<T> room = turn.received;
    for (int peer = 0; peer < size(); ++peer)
      for (const Range& range : turn.own) {
        const std::span<T> theirs = room.first(range.size());
        room = room.subspan(theirs.size());
        if (peer != rank())
          turn.transfers.push_back(transport_.receive(std::as_writable_bytes(theirs), peer));
      }
    for (int owner = 0; owner < size(); ++owner) {
      if (owner == rank()) continue;
      for (const Range& range : left.take(owner, limit))
        turn.transfers.push_back(
            transport_.send(std::as_bytes(values.subspan(range.begin, range.size())), owner));
    }
  }

  template <class T>
  void finish(Turn<T>& turn, std::span<T> values) {
    wait_for_all(turn.transfers);
    std::int64_t at = 0;
    for (const Range& range : turn.own) {
      const std::span<T> sums = values.subspan(range.begin, range.size());
      sum_in_rank_order(sums, size(), [&](int peer) -> const T* {
        return peer == rank() ? sums.data() : turn.received.data() + peer * elements(turn.own) + at;
      });
      at += range.size();
    }
  }

  /// Each owner sends its parts to all.
  template <class T>
  void send_own_parts(std::span<T> values, std::span<const OwnedRange> parts) {
    std::vector<Transfer> transfers;
    for (const auto& [range, owner] : parts)
      if (owner != rank())
        transfers.push_back(transport_.receive(
            std::as_writable_bytes(values.subspan(range.begin, range.size())), owner));
    for (const auto& [range, owner] : parts)
      for (int peer = 0; owner == rank() && peer < size(); ++peer)
        if (peer != rank())
          transfers.push_back(
              transport_.send(std::as_bytes(values.subspan(range.begin, range.size())), peer));
    wait_for_all(transfers);
  }

  static void wait_for_all(std::vector<Transfer>& transfers) {
    for (Transfer& transfer : transfers) transfer.wait();
    transfers.clear();
  }

  static std::int64_t elements(std::span<const Range> ranges) {
    std::int64_t sum = 0;
    for (const Range& range : ranges) sum += range.size();
    return sum;
  }

  TcpTransport transport_;
  const std::unique_ptr<TwoLevelSum> levels_;  // null: sums go between all ranks
};

}  // namespace

std::unique_ptr<Communicator> connect_tcp(ControlChannel& channel, const GroupOptions& options,
                                          const std::string& address, const CudaQueue* compute) {
  return make_queued_communicator(
      channel, stage_for(compute, std::make_unique<TcpCollectives>(channel, options, address)),
      options);
}

}  // namespace hgt
