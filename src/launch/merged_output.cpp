#include "merged_output.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {
namespace {

constexpr std::size_t kPieceBytes = 256;  // what a piece takes besides its text, about

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
    throw Error(ErrorKind::kPeer, fmt::format("rank {} printed, which the job has not", rank));
  if (world_size_ == 1) return console_.write(stream, text);
  Source& source = sources_[rank];
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
  while (best()) show_next();
  hand_over();
  sources_.clear();
}

void MergedOutput::finish(Source& source) {
  for (const Stream stream : {kOut, kErr})
    source.cutters[stream].finish([&](const Piece& piece) { add(source, stream, piece); });
}

void MergedOutput::add(Source& source, Stream stream, const Piece& piece) {
  std::string text(piece.text);
  Line* line = nullptr;
  if (!piece.continues && ends_line(text)) {
    line = &lines_[stream][text];
    ++line->waiting;
    if (source.waiting.empty()) ++line->next;
  }
  waiting_bytes_ += text.size() + kPieceBytes;
  source.waiting.push_back(
      {stream, std::move(text), piece.continues, line, Clock::now() + kWait, next_number_++});
}

void MergedOutput::show_what_is_due() {
  for (const Waiting* next = best(); next && is_due(*next); next = best()) show_next();
  hand_over();
  wait();
}

/// What is shown next: the rest of a long line, then what no other rank is about to print too, then
/// what came first.
const MergedOutput::Waiting* MergedOutput::best() const {
  const auto order = [](const Waiting& piece) {
    const bool is_expected = piece.line && piece.line->waiting > piece.line->next;
    return std::tuple(!piece.continues, is_expected, piece.number);
  };
  const Waiting* best = nullptr;
  for (const auto& [rank, source] : sources_)
    if (!source.waiting.empty() && (!best || order(source.waiting.front()) < order(*best)))
      best = &source.waiting.front();
  return best;
}

/// Whether to show the best piece now: no rank is left to wait for, or something has waited for
/// long.
bool MergedOutput::is_due(const Waiting& piece) const {
  return piece.continues || (piece.line ? piece.line->next : 1) >= num_shown_ ||
         waiting_bytes_ > kMaxWaitingBytes || first_until() <= Clock::now();
}

MergedOutput::Clock::time_point MergedOutput::first_until() const {
  auto until = Clock::time_point::max();
  for (const auto& [rank, source] : sources_)
    if (!source.waiting.empty()) until = std::min(until, source.waiting.front().until);
  return until;
}

/// Shows the best piece, once for all ranks whose next one is the same.
void MergedOutput::show_next() {
  const Waiting* const piece = best();
  std::vector<int> ranks;
  for (const auto& [rank, source] : sources_) {
    if (source.waiting.empty()) continue;
    const Waiting& other = source.waiting.front();
    if (&other == piece || (piece->line && other.line == piece->line)) ranks.push_back(rank);
  }
  print(*piece, ranks);
  for (const int rank : ranks) take_first(sources_.at(rank));
}

void MergedOutput::take_first(Source& source) {
  const Waiting piece = std::move(source.waiting.front());
  source.waiting.pop_front();
  waiting_bytes_ -= piece.text.size() + kPieceBytes;
  if (!source.waiting.empty() && source.waiting.front().line) ++source.waiting.front().line->next;
  if (!piece.line) return;
  --piece.line->next;
  if (--piece.line->waiting == 0) lines_[piece.stream].erase(piece.text);
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
  const Clock::time_point until = first_until();
  timer_.cancel();
  if (until == Clock::time_point::max()) return;
  timer_.expires_at(until);
  timer_.async_wait([this](const std::error_code& error) {
    if (!error) show_what_is_due();
  });
}

}  // namespace hgt
