#include "merged_output.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {
namespace {

constexpr std::size_t kPieceOverhead = 256;     // what a piece takes besides its text, about
constexpr std::chrono::milliseconds kTick{20};  // lines that come within it are shown together

bool ends_line(std::string_view text) {
  return text.ends_with('\n') || text.ends_with('\r');
}

std::string prefix_of(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("[r{}] ", ranks[0]);
  RankSet set;
  for (const int rank : ranks) set.add(rank);
  return fmt::format("[ranks {}] ", set.text());
}

}  // namespace

MergedOutput::MergedOutput(asio::io_context& io, Console console)
    : console_(std::move(console)), timer_(io) {}

void MergedOutput::begin(const RankSet& shown, int world_size) {
  flush();
  world_size_ = world_size;
  num_shown_ = shown.count_of(world_size);
}

void MergedOutput::write(int rank, Stream stream, std::string_view text) {
  if (rank < 0 || rank >= world_size_)
    throw Error(ErrorKind::kPeer,
                fmt::format("an agent sent output of rank {}, which the job does not have", rank));
  if (world_size_ == 1) return console_.write(stream, text);
  Source& source = sources_[rank];
  source.rank = rank;
  source.cutters[stream].feed(text, [&](const Piece& piece) { add(source, stream, piece); });
  show_what_is_due();
}

void MergedOutput::end(int rank) {
  if (const auto source = sources_.find(rank); source != sources_.end()) finish(source->second);
  --num_shown_;
  show_what_is_due();
}

void MergedOutput::flush() {
  for (auto& [rank, source] : sources_) finish(source);
  while (!order_.empty()) show_next();
  hand_over();
  sources_.clear();
}

void MergedOutput::finish(Source& source) {
  for (const Stream stream : {kOut, kErr})
    source.cutters[stream].finish([&](const Piece& piece) { add(source, stream, piece); });
}

void MergedOutput::add(Source& source, Stream stream, const Piece& piece) {
  std::string text(piece.text);
  const bool is_line = !piece.continues && ends_line(text);
  std::shared_ptr<Group> part;
  std::shared_ptr<Group>& group = is_line ? lines_[stream][text] : part;
  if (!group) group = std::make_shared<Group>(Group{.continues = piece.continues});
  const std::uint64_t number = next_number_++;
  change(*group, [&] {
    ++group->waiting;
    if (source.waiting.empty()) group->next.emplace(number, source.rank);
  });
  waiting_bytes_ += text.size() + kPieceOverhead;
  const auto until = (Clock::now() + kWait).time_since_epoch() / kTick * kTick;
  source.waiting.push_back(
      {stream, std::move(text), piece.continues, group, Clock::time_point(until), number});
}

void MergedOutput::show_what_is_due() {
  while (!order_.empty() && is_due(*order_.begin()->group)) show_next();
  hand_over();
  wait();
}

MergedOutput::Order MergedOutput::order_of(Group& group) {
  const bool is_expected = group.waiting > std::ssize(group.next);
  return {group.continues ? 0 : is_expected ? 2 : 1, group.next.begin()->first, &group};
}

/// The place of a group follows from what it has.
template <class Change>
void MergedOutput::change(Group& group, const Change& how) {
  if (!group.next.empty()) order_.erase(order_of(group));
  how();
  if (!group.next.empty()) order_.insert(order_of(group));
}

const MergedOutput::Waiting& MergedOutput::next_of(const Group& group) const {
  return sources_.at(group.next.begin()->second).waiting.front();
}

/// Whether to show the first group now: no rank is left to wait for, or something has waited for
/// long.
bool MergedOutput::is_due(const Group& group) const {
  return group.continues || std::ssize(group.next) >= num_shown_ ||
         waiting_bytes_ > kMaxWaitingBytes || first_until() <= Clock::now();
}

/// Pieces with lower numbers came earlier, so of each urgency the first group has waited longest.
MergedOutput::Clock::time_point MergedOutput::first_until() const {
  auto until = Clock::time_point::max();
  for (int urgency = 0; urgency < 3; ++urgency)
    if (const auto first = order_.lower_bound({urgency, 0, nullptr}); first != order_.end())
      until = std::min(until, next_of(*first->group).until);
  return until;
}

/// Shows the first group, once for all ranks of which it is next.
void MergedOutput::show_next() {
  const Waiting& piece = next_of(*order_.begin()->group);
  const std::shared_ptr<Group> group = piece.group;
  std::vector<int> ranks;
  for (const auto& [number, rank] : group->next) ranks.push_back(rank);
  std::ranges::sort(ranks);
  print(piece, ranks);
  for (const int rank : ranks) take_next(sources_.at(rank));
}

void MergedOutput::take_next(Source& source) {
  const Waiting piece = std::move(source.waiting.front());
  source.waiting.pop_front();
  waiting_bytes_ -= piece.text.size() + kPieceOverhead;
  change(*piece.group, [&] {
    piece.group->next.erase(piece.number);
    --piece.group->waiting;
  });
  const auto line = lines_[piece.stream].find(piece.text);
  if (piece.group->waiting == 0 && line != lines_[piece.stream].end() &&
      line->second == piece.group)
    lines_[piece.stream].erase(line);
  if (source.waiting.empty()) return;
  const Waiting& next = source.waiting.front();
  change(*next.group, [&] { next.group->next.emplace(next.number, source.rank); });
}

void MergedOutput::print(const Waiting& piece, const std::vector<int>& ranks) {
  int& open_rank = open_rank_[piece.stream];
  const bool goes_on = piece.continues && (open_rank == ranks[0] || piece.text == "\n");
  std::string& shown = shown_[piece.stream];
  if (open_rank >= 0 && !goes_on) shown += '\n';
  if (!goes_on) shown += prefix_of(ranks);
  shown += piece.text;
  open_rank = ends_line(piece.text) ? -1 : ranks[0];
}

void MergedOutput::hand_over() {
  for (const Stream stream : {kOut, kErr})
    if (!shown_[stream].empty()) console_.write(stream, std::exchange(shown_[stream], {}));
}

void MergedOutput::wait() {
  if (const Clock::time_point until = first_until(); std::exchange(armed_, until) != until) {
    timer_.cancel();
    if (until == Clock::time_point::max()) return;
    timer_.expires_at(until);
    timer_.async_wait([this](const std::error_code& error) {
      if (error) return;
      armed_ = Clock::time_point::max();
      show_what_is_due();
    });
  }
}

}  // namespace hgt
