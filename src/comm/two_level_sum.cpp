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

std::vector<HostBlock> host_blocks(const std::vector<std::string>& hosts) {
  std::vector<HostBlock> out;
  std::set<std::string> known;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const bool goes_on = rank > 0 && hosts[rank] == hosts[rank - 1];
    if (!goes_on && (hosts[rank].empty() || !known.insert(hosts[rank]).second)) return {};
    if (!goes_on) out.push_back({static_cast<int>(rank), 0});
    ++out.back().size;
  }
  const bool any_share =
      std::ranges::any_of(out, [](const HostBlock& host) { return host.size > 1; });
  return out.size() > 1 && any_share ? out : std::vector<HostBlock>();
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
  std::vector<HostBlock> hosts = host_blocks(exchange("host", options.host));
  if (hosts.empty()) return nullptr;
  const auto after = std::ranges::upper_bound(hosts, options.rank, {}, &HostBlock::first);
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

TwoLevelSum::TwoLevelSum(TcpTransport& transport, std::vector<HostBlock> hosts, std::size_t host,
                         SharedSegment segment, const GroupOptions& of_host)
    : transport_(transport),
      hosts_(std::move(hosts)),
      host_(host),
      lanes_(std::ranges::min(hosts_, {}, &HostBlock::size).size),
      board_(std::move(segment), of_host) {}

/// One sum. Own values are those of this rank's part of each piece.
template <class T>
class TwoLevelSum::Pass {
 public:
  Pass(TwoLevelSum& all, std::span<T> values) : all_(all), values_(values) {
    std::size_t own_values = 0;
    for (std::size_t i = 0; has_lane() && i < pieces(); ++i) {
      partial_at_.push_back(own_values);
      own_values += own(i).size();
    }
    partial_.resize(own_values);
    // The sums that come back replace values that have been sent before.
    for (std::size_t i = 0; i < partial_at_.size(); ++i) {
      if (!is_first()) partials_.push_back(transport().receive(bytes(partial(i)), previous()));
      if (!is_last()) sums_.push_back(transport().receive(bytes(own(i)), next()));
    }
  }

  /// While the sums of a piece come back, those of the next pieces are on their way to the last
  /// host.
  void run() {
    const std::size_t ahead = kAhead * (all_.hosts_.size() - 1 - all_.host_);
    for (std::size_t i = 0; i < pieces() + ahead; ++i) {
      if (i < pieces()) send_to_the_last_host(i);
      if (i >= ahead) bring_back(i - ahead);
    }
    for (TcpTransport::Transfer& transfer : sent_) transfer.wait();
  }

 private:
  using Sum = std::conditional_t<sizeof(T) == 2, float, T>;
  static constexpr std::size_t kPiece = SharedBoard::kPieceBytes / sizeof(T);
  static constexpr std::size_t kAhead = 8;  // pieces, for each host on the way

  SharedBoard& board() { return all_.board_; }
  TcpTransport& transport() { return all_.transport_; }
  bool has_lane() const { return all_.board_.rank() < all_.lanes_; }
  bool is_first() const { return all_.host_ == 0; }
  bool is_last() const { return all_.host_ + 1 == all_.hosts_.size(); }
  int previous() { return all_.hosts_[all_.host_ - 1].first + board().rank(); }
  int next() { return all_.hosts_[all_.host_ + 1].first + board().rank(); }

  std::size_t pieces() const { return (values_.size() + kPiece - 1) / kPiece; }
  std::span<T> piece(std::size_t i) const {
    return values_.subspan(i * kPiece, std::min(kPiece, values_.size() - i * kPiece));
  }
  Range part(std::size_t i, int lane) const {
    return even_range(std::ssize(piece(i)), all_.lanes_, lane);
  }
  std::span<T> own(std::size_t i) {
    const Range range = part(i, board().rank());
    return piece(i).subspan(range.begin, range.size());
  }
  std::span<Sum> partial(std::size_t i) {
    return std::span(partial_).subspan(partial_at_[i], own(i).size());
  }
  T* on_board(int rank_of_host, std::size_t age) {
    return reinterpret_cast<T*>(board().piece(rank_of_host, age).data());
  }
  template <class V>
  static std::span<std::byte> bytes(std::span<V> values) {
    return std::as_writable_bytes(values);
  }

  void send_to_the_last_host(std::size_t i) {
    std::ranges::copy(piece(i), on_board(board().rank(), 0));
    board().next_turn();
    if (!has_lane()) return;
    if (!is_first()) partials_[i].wait();
    add_ranks_of_host(i);
    if (is_last())
      std::ranges::copy(partial(i), own(i).begin());
    else
      sent_.push_back(transport().send(bytes(partial(i)), next()));
  }

  void bring_back(std::size_t i) {
    if (has_lane()) {
      if (!is_last()) sums_[i].wait();
      if (!is_first()) sent_.push_back(transport().send(bytes(own(i)), previous()));
      std::ranges::copy(own(i), on_board(board().rank(), 0) + part(i, board().rank()).begin);
    }
    board().next_turn();
    for (int lane = 0; lane < all_.lanes_; ++lane)
      if (const Range of = part(i, lane); lane != board().rank())
        std::copy_n(on_board(lane, 1) + of.begin, of.size(), piece(i).begin() + of.begin);
  }

  void add_ranks_of_host(std::size_t i) {
    const std::span<Sum> sums = partial(i);
    for (int rank = 0; rank < board().size(); ++rank) {
      const T* const theirs = on_board(rank, 1) + part(i, board().rank()).begin;
      if (is_first() && rank == 0)
        std::copy_n(theirs, sums.size(), sums.begin());
      else
        for (std::size_t at = 0; at < sums.size(); ++at) sums[at] += theirs[at];
    }
  }

  TwoLevelSum& all_;
  const std::span<T> values_;
  std::vector<Sum> partial_;             // sums of own values, of the hosts up to this one
  std::vector<std::size_t> partial_at_;  // where those of each piece begin
  std::vector<TcpTransport::Transfer> partials_, sums_, sent_;  // last: gone before their memory
};

void TwoLevelSum::sum(std::span<std::byte> values, DType type) {
  visit_values(values, type, [&]<class T>(std::span<T> typed) { Pass<T>(*this, typed).run(); });
}

}  // namespace hgt
