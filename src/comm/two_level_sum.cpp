#include "two_level_sum.h"

#include <algorithm>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/parallel/range.h"

#include "rank_order.h"
#include "shared_segment.h"

namespace hgt {

std::vector<RanksOfHost> ranks_of_hosts(const std::vector<std::string>& hosts) {
  std::vector<RanksOfHost> out;
  std::set<std::string> known;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const bool goes_on = rank > 0 && hosts[rank] == hosts[rank - 1];
    if (!goes_on && (hosts[rank].empty() || !known.insert(hosts[rank]).second)) return {};
    if (!goes_on) out.push_back({static_cast<int>(rank), 0});
    ++out.back().size;
  }
  const bool any_share =
      std::ranges::any_of(out, [](const RanksOfHost& host) { return host.size > 1; });
  return out.size() > 1 && any_share ? out : std::vector<RanksOfHost>();
}

std::unique_ptr<TwoLevelSum> TwoLevelSum::connect(ControlChannel& channel,
                                                  const GroupOptions& options,
                                                  TcpTransport& transport) {
  /// Exchanges a text under that name; returns all ranks' texts.
  const auto exchange = [&](const char* name, const std::string& mine) {
    const auto key = [&](int rank) {
      return fmt::format("comm/{}/{}/{}", options.group, name, rank);
    };
    channel.set(key(options.rank), mine);
    std::vector<std::string> out;
    for (int rank = 0; rank < options.size; ++rank)
      out.push_back(channel.get(key(rank), options.timeout));
    return out;
  };
  std::vector<RanksOfHost> hosts = ranks_of_hosts(exchange("host", options.host));
  if (hosts.empty()) return nullptr;
  const auto after = std::ranges::upper_bound(hosts, options.rank, {}, &RanksOfHost::first);
  const auto host = static_cast<std::size_t>(after - hosts.begin() - 1);
  GroupOptions own = options;
  own.group = fmt::format("{}: host {}", options.group, host);
  own.rank = options.rank - hosts[host].first;
  own.size = hosts[host].size;
  own.members.clear();
  for (int rank = 0; rank < own.size; ++rank)
    own.members.push_back(options.job_rank(hosts[host].first + rank));
  std::optional<SharedSegment> segment = share_segment(channel, own);
  const std::vector<std::string> have = exchange("shares memory", segment ? "yes" : "no");
  if (std::ranges::count(have, "no") > 0) return nullptr;
  return std::unique_ptr<TwoLevelSum>(
      new TwoLevelSum(transport, std::move(hosts), host, std::move(*segment), own));
}

TwoLevelSum::TwoLevelSum(TcpTransport& transport, std::vector<RanksOfHost> hosts, std::size_t host,
                         SharedSegment segment, const GroupOptions& of_host)
    : transport_(transport),
      hosts_(std::move(hosts)),
      host_(host),
      lanes_(std::ranges::min(hosts_, {}, &RanksOfHost::size).size),
      board_(std::move(segment), of_host) {}

std::size_t TwoLevelSum::host_of(int rank) const {
  const auto after = std::ranges::upper_bound(hosts_, rank, {}, &RanksOfHost::first);
  return static_cast<std::size_t>(after - hosts_.begin() - 1);
}

/// Values that go to the last host and come back, piece by piece. Own values are those of this
/// rank's part of each piece.
template <class T>
class TwoLevelSum::Pass {
 protected:
  using Transfer = TcpTransport::Transfer;

  Pass(TwoLevelSum& all, std::span<T> values) : all_(all), values_(values) {}

  /// `go(i)` sends piece i on and `come_back(i)` completes own values of it. While a piece comes
  /// back, the next ones are on their way to the last host.
  template <class Go, class ComeBack>
  void run(const Go& go, const ComeBack& come_back) {
    const std::size_t ahead = kAhead * (all_.hosts_.size() - 1 - all_.host_);
    for (std::size_t i = 0; i < pieces() + ahead; ++i) {
      if (i < pieces()) {
        std::ranges::copy(piece(i), on_board(board().rank(), 0));
        next_turn();
        if (has_lane()) go(i);
      }
      if (i >= ahead) {
        if (has_lane()) come_back(i - ahead);
        share_own(i - ahead);
      }
    }
    for (Transfer& transfer : sent_) transfer.wait();
  }

  SharedBoard& board() { return all_.board_; }
  TcpTransport& transport() { return all_.transport_; }
  bool has_lane() const { return all_.board_.rank() < all_.lanes_; }
  std::size_t host() const { return all_.host_; }
  bool is_first() const { return host() == 0; }
  bool is_last() const { return host() + 1 == all_.hosts_.size(); }
  int previous() { return all_.hosts_[host() - 1].first + board().rank(); }
  int next() { return all_.hosts_[host() + 1].first + board().rank(); }

  std::size_t pieces() const { return (values_.size() + kPiece - 1) / kPiece; }
  std::span<T> own(std::size_t i) {
    const Range range = part(i, board().rank());
    return piece(i).subspan(range.begin, range.size());
  }
  /// The place of own values among all.
  Range own_range(std::size_t i) const {
    const Range range = part(i, all_.board_.rank());
    const auto begin = static_cast<std::int64_t>(i * kPiece);
    return {begin + range.begin, begin + range.end};
  }
  /// Own values as a rank of this host has them, after go() has begun.
  const T* own_of(int rank_of_host, std::size_t i) {
    return on_board(rank_of_host, 1) + part(i, board().rank()).begin;
  }
  template <class V>
  static std::span<std::byte> bytes(std::span<V> values) {
    return std::as_writable_bytes(values);
  }

  TwoLevelSum& all_;
  const std::span<T> values_;
  std::vector<Transfer> sent_;

 private:
  static constexpr std::size_t kPiece = SharedBoard::kPieceBytes / sizeof(T);
  static constexpr std::size_t kAhead = 8;  // pieces, for each host on the way

  std::span<T> piece(std::size_t i) const {
    return values_.subspan(i * kPiece, std::min(kPiece, values_.size() - i * kPiece));
  }
  Range part(std::size_t i, int lane) const {
    return even_range(std::ssize(piece(i)), all_.lanes_, lane);
  }
  T* on_board(int rank_of_host, std::size_t age) {
    return reinterpret_cast<T*>(board().piece(rank_of_host, age).data());
  }

  /// Bytes move on meanwhile: the rank of this host that is waited for may wait for a rank of
  /// another host, which waits for them.
  void next_turn() {
    board().next_turn([this] { transport().move_bytes(); });
  }

  /// Own values become those of all ranks of the host.
  void share_own(std::size_t i) {
    if (has_lane())
      std::ranges::copy(own(i), on_board(board().rank(), 0) + part(i, board().rank()).begin);
    next_turn();
    for (int lane = 0; lane < all_.lanes_; ++lane)
      if (const Range of = part(i, lane); lane != board().rank())
        std::copy_n(on_board(lane, 1) + of.begin, of.size(), piece(i).begin() + of.begin);
  }
};

/// The sums of all ranks. A piece comes back to the first host that has an owner of own values.
template <class T>
class TwoLevelSum::Sum : Pass<T> {
  using Base = Pass<T>;
  using Partial = std::conditional_t<sizeof(T) == 2, float, T>;

 public:
  Sum(TwoLevelSum& all, std::span<T> values, std::span<const OwnedRange> parts)
      : Base(all, values) {
    std::size_t own_values = 0;
    for (std::size_t i = 0; this->has_lane() && i < this->pieces(); ++i) {
      partial_at_.push_back(own_values);
      own_values += this->own(i).size();
      goal_.push_back(first_owner(this->own_range(i), parts));
    }
    partial_.resize(own_values);
    // The sums that come back replace values that have been sent before.
    for (std::size_t i = 0; i < partial_at_.size(); ++i) {
      if (!this->is_first())
        partials_.push_back(this->transport().receive(this->bytes(partial(i)), this->previous()));
      if (!this->is_last() && goal_[i] <= this->host())
        sums_.push_back(this->transport().receive(this->bytes(this->own(i)), this->next()));
    }
  }

  void run() {
    Base::run([this](std::size_t i) { go(i); }, [this](std::size_t i) { come_back(i); });
  }

 private:
  std::span<Partial> partial(std::size_t i) {
    return std::span(partial_).subspan(partial_at_[i], this->own(i).size());
  }

  /// The first host that has an owner of values in the range.
  std::size_t first_owner(Range range, std::span<const OwnedRange> parts) const {
    std::size_t out = this->all_.hosts_.size();
    const auto end_of = [](const OwnedRange& part) { return part.elements.end; };
    for (auto part = std::ranges::upper_bound(parts, range.begin, {}, end_of);
         part != parts.end() && part->elements.begin < range.end; ++part)
      out = std::min(out, this->all_.host_of(part->rank));
    return out;
  }

  void go(std::size_t i) {
    if (!this->is_first()) partials_[i].wait();
    add_ranks_of_host(i);
    if (this->is_last())
      std::ranges::copy(partial(i), this->own(i).begin());
    else
      this->sent_.push_back(this->transport().send(this->bytes(partial(i)), this->next()));
  }

  void come_back(std::size_t i) {
    if (!this->is_last() && goal_[i] <= this->host()) sums_[next_sum_++].wait();
    if (goal_[i] < this->host())
      this->sent_.push_back(this->transport().send(this->bytes(this->own(i)), this->previous()));
  }

  void add_ranks_of_host(std::size_t i) {
    const std::span<Partial> sums = partial(i);
    for (int rank = 0; rank < this->board().size(); ++rank) {
      const T* const theirs = this->own_of(rank, i);
      if (this->is_first() && rank == 0)
        std::copy_n(theirs, sums.size(), sums.begin());
      else
        for (std::size_t at = 0; at < sums.size(); ++at) sums[at] += theirs[at];
    }
  }

  std::vector<Partial> partial_;         // sums of own values, of the hosts up to this one
  std::vector<std::size_t> partial_at_;  // where those of each piece begin
  std::vector<std::size_t> goal_;        // first_owner() of each piece
  std::size_t next_sum_ = 0;
  std::vector<TcpTransport::Transfer> partials_, sums_;  // last: gone before their memory
};

/// All ranks' parts. Those of the hosts up to this one go to the next host, and those of this one
/// and the hosts after it to the previous one.
class TwoLevelSum::Gather : Pass<std::byte> {
 public:
  Gather(TwoLevelSum& all, std::span<std::byte> values, std::span<const OwnedRange> parts)
      : Pass(all, values), parts_(parts) {
    for (std::size_t i = 0; has_lane() && i < pieces(); ++i) {
      for_parts(i, 0, host(), [&](std::span<std::byte> theirs, int) {
        before_.push_back({i, transport().receive(theirs, previous())});
      });
      for_parts(i, host() + 1, all_.hosts_.size(), [&](std::span<std::byte> theirs, int) {
        after_.push_back({i, transport().receive(theirs, next())});
      });
    }
  }

  void run() {
    Pass::run([this](std::size_t i) { go(i); }, [this](std::size_t i) { come_back(i); });
  }

 private:
  struct Arrival {
    std::size_t piece;
    Transfer transfer;
  };

  /// Calls visit(bytes, owner) for what owners on the hosts [first, last) have of own values.
  template <class Visit>
  void for_parts(std::size_t i, std::size_t first, std::size_t last, const Visit& visit) {
    const Range own = own_range(i);
    const auto end_of = [](const OwnedRange& part) { return part.elements.end; };
    for (auto part = std::ranges::upper_bound(parts_, own.begin, {}, end_of);
         part != parts_.end() && part->elements.begin < own.end; ++part) {
      const std::size_t of = all_.host_of(part->rank);
      const std::int64_t begin = std::max(part->elements.begin, own.begin);
      const std::int64_t end = std::min(part->elements.end, own.end);
      if (first <= of && of < last && begin < end)
        visit(values_.subspan(begin, end - begin), part->rank);
    }
  }

  void send_parts(std::size_t i, std::size_t first, std::size_t last, int to) {
    for_parts(i, first, last, [&](std::span<std::byte> theirs, int) {
      sent_.push_back(transport().send(theirs, to));
    });
  }

  static void wait_for(std::vector<Arrival>& arrivals, std::size_t& done, std::size_t piece) {
    for (; done < arrivals.size() && arrivals[done].piece == piece; ++done)
      arrivals[done].transfer.wait();
  }

  void go(std::size_t i) {
    for_parts(i, host(), host() + 1, [&](std::span<std::byte> theirs, int owner) {
      const int rank = owner - all_.hosts_[host()].first;
      if (rank != board().rank())
        std::copy_n(own_of(rank, i) + (theirs.data() - own(i).data()), theirs.size(),
                    theirs.begin());
    });
    wait_for(before_, done_before_, i);
    if (!is_last()) send_parts(i, 0, host() + 1, next());
  }

  void come_back(std::size_t i) {
    wait_for(after_, done_after_, i);
    if (!is_first()) send_parts(i, host(), all_.hosts_.size(), previous());
  }

  const std::span<const OwnedRange> parts_;
  std::size_t done_before_ = 0, done_after_ = 0;
  std::vector<Arrival> before_, after_;
};

void TwoLevelSum::sum(std::span<std::byte> values, DType type) {
  visit_values(values, type, [&]<class T>(std::span<T> typed) {
    const OwnedRange all{{0, std::ssize(typed)}, 0};
    Sum<T>(*this, typed, {&all, 1}).run();
  });
}

void TwoLevelSum::reduce_scatter(std::span<std::byte> values, DType type,
                                 std::span<const OwnedRange> parts) {
  visit_values(values, type,
               [&]<class T>(std::span<T> typed) { Sum<T>(*this, typed, parts).run(); });
}

void TwoLevelSum::all_gather(std::span<std::byte> values, std::span<const OwnedRange> parts) {
  Gather(*this, values, parts).run();
}

}  // namespace hgt
