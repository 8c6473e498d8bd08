#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "hgtrain/launch/rank_set.h"

#include "lines.h"
#include "output_sink.h"

namespace hgt {

/// The output of all ranks as one text. The output of a job of one rank is passed on unchanged. If
/// there are more ranks, whole lines are shown, each after its rank: "[r3] text". If ranks print
/// the same line, it is shown once, after all of them: "[ranks 0-7] text". For that, a line waits
/// for those of other ranks, but no longer than kWait and while no more than kMaxWaitingBytes wait.
/// The lines of one rank stay in their order, and none is left out.
///
/// A line of more than LineCutter::kMaxPieceBytes is shown in parts: if another rank prints
/// between two of them, each part becomes a line.
class MergedOutput final : public OutputSink {
 public:
  static constexpr std::chrono::milliseconds kWait{100};
  static constexpr std::size_t kMaxWaitingBytes = 256 << 10;

  struct Console {
    std::function<void(Stream stream, std::string_view text)> write;
    std::function<bool()> is_full;
  };
  MergedOutput(asio::io_context& io, Console console);

  /// An attempt begins: of its ranks, `shown` print something.
  void begin(const RankSet& shown, int world_size);
  /// Error(kPeer) if the job has no such rank.
  void write(int rank, Stream stream, std::string_view text) override;
  void end(int rank) override;
  bool is_full() const override { return console_.is_full(); }
  /// Shows all that waits, also lines that have no end yet.
  void flush();

 private:
  using Clock = std::chrono::steady_clock;

  /// Pieces that are shown together: the same whole line of several ranks, or one part of a long
  /// line.
  struct Group {
    bool continues;   ///< an earlier part of the line was shown
    int waiting = 0;  ///< how many pieces it has
    /// The ranks whose next piece is in the group, by the piece's number.
    std::map<std::uint64_t, int> next = {};
  };
  /// A piece of a rank's output that waits to be shown.
  struct Waiting {
    Stream stream;
    std::string text;
    bool continues;
    std::shared_ptr<Group> group;
    Clock::time_point until;
    std::uint64_t number;  // in the order in which all pieces arrived
  };
  /// A rank that has printed something.
  struct Source {
    int rank = 0;
    std::array<LineCutter, 2> cutters;
    std::deque<Waiting> waiting;
  };
  /// The order of groups: first the rest of a long line, then lines that no other rank is about to
  /// print as well, then the earliest.
  struct Order {
    int urgency;
    std::uint64_t number;
    Group* group;
    auto operator<=>(const Order&) const = default;
  };

  void add(Source& source, Stream stream, const Piece& piece);
  void finish(Source& source);
  void show_what_is_due();
  void show_next();
  static Order order_of(Group& group);
  template <class Change>
  void change(Group& group, const Change& how);
  const Waiting& next_of(const Group& group) const;
  bool is_due(const Group& group) const;
  Clock::time_point first_until() const;
  void take_next(Source& source);
  void print(const Waiting& piece, const std::vector<int>& ranks);
  void hand_over();
  void wait();

  const Console console_;
  asio::steady_timer timer_;
  int world_size_ = 1;
  int num_shown_ = 1;  // ranks that may still print
  std::map<int, Source> sources_;
  std::array<std::unordered_map<std::string, std::shared_ptr<Group>>, 2> lines_;  // whole, by text
  std::set<Order> order_;  // of the groups that have a rank's next piece
  Clock::time_point armed_ = Clock::time_point::max();  // when the timer ends
  std::uint64_t next_number_ = 0;
  std::size_t waiting_bytes_ = 0;
  std::array<std::string, 2> shown_;  // what the console gets next, by stream
  std::array<int, 2> open_rank_{
      -1, -1};  // by stream: the rank whose line has been shown in part; -1: none
};

}  // namespace hgt
