#include "shared_board.h"

#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"

#include "aborted.h"

namespace hgt {
namespace {

constexpr std::size_t kLine = 64;
constexpr auto kSets = static_cast<std::size_t>(kSharedTurns);
constexpr int kSpins = 200;  // another rank may need this core to compute
constexpr std::int64_t kRecheckNs = 50'000'000, kMeanwhileNs = 200'000;

using Word = std::atomic<std::uint32_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == sizeof(std::uint32_t));

// std::atomic's own wait works only between threads of one process.
void futex_wait(const Word& word, std::uint32_t seen, std::int64_t at_most_ns) {
  const timespec at_most{0, at_most_ns};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &at_most, nullptr, 0);
}

void futex_wake(const Word& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool has_reached(std::uint32_t ended, std::uint32_t turn) {
  return static_cast<std::int32_t>(ended - turn) >= 0;
}

/// Rank 0's new segment, or the one of that name, mapped; none if this rank cannot have it.
std::optional<SharedSegment> find_segment(const std::string& name, const GroupOptions& options) {
  const std::size_t bytes = SharedBoard::bytes(options.size);
  try {
    SharedSegment segment =
        options.rank == 0 ? SharedSegment::create(bytes) : SharedSegment::open(name, bytes);
    segment.hold(options.rank);
    return segment;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<SharedSegment> share_segment(ControlChannel& channel, const GroupOptions& options) {
  const auto key = [&](int rank) { return fmt::format("comm/{}/shared/{}", options.group, rank); };
  const auto of_rank = [&](int rank) { return channel.get(key(rank), options.timeout); };
  // Rank 0 publishes the name when the segment exists; the others then say whether they found it.
  std::optional<SharedSegment> segment = find_segment(options.rank == 0 ? "" : of_rank(0), options);
  channel.set(key(options.rank), segment ? segment->name() : "");
  for (int rank = 0; rank < options.size; ++rank)
    if (of_rank(rank).empty()) return std::nullopt;
  return segment;
}

std::size_t SharedBoard::bytes(int size) {
  return static_cast<std::size_t>(size) * (kLine + kSets * kPieceBytes);
}

SharedBoard::SharedBoard(SharedSegment segment, const GroupOptions& options)
    : segment_(std::move(segment)), rank_(options.rank), size_(options.size), options_(options) {}

Word& SharedBoard::ended(int rank) const {
  return *reinterpret_cast<Word*>(segment_.data() + static_cast<std::size_t>(rank) * kLine);
}

std::span<std::byte> SharedBoard::piece(int rank, std::size_t age) const {
  const std::size_t at = (turn_ + kSets - age) % kSets * static_cast<std::size_t>(size_) +
                         static_cast<std::size_t>(rank);
  return {segment_.data() + static_cast<std::size_t>(size_) * kLine + at * kPieceBytes,
          kPieceBytes};
}

void SharedBoard::next_turn(const std::function<void()>& meanwhile) {
  ++turn_;
  ended(rank_).store(static_cast<std::uint32_t>(turn_), std::memory_order_release);
  futex_wake(ended(rank_));
  for (int peer = 0; peer < size_; ++peer) wait_for(peer, meanwhile);
}

void SharedBoard::wait_for(int peer, const std::function<void()>& meanwhile) {
  const Word& word = ended(peer);
  const auto turn = static_cast<std::uint32_t>(turn_);
  const std::int64_t until_ns = awake_ns() + std::chrono::nanoseconds(options_.timeout).count();
  for (int spins = 0;; ++spins) {
    if (aborted_) throw aborted_error();
    const std::uint32_t seen = word.load(std::memory_order_acquire);
    if (has_reached(seen, turn)) return;
    if (spins < kSpins) continue;
    if (!segment_.is_held(peer) && !has_reached(word.load(std::memory_order_acquire), turn))
      throw Error(ErrorKind::kPeer,
                  fmt::format("lost rank {}: it has left", options_.job_rank(peer)));
    if (awake_ns() >= until_ns)
      throw Error(ErrorKind::kPeer,
                  fmt::format("rank {} did not answer within {:g} s", options_.job_rank(peer),
                              static_cast<double>(options_.timeout.count()) * 1e-3));
    if (meanwhile) meanwhile();
    futex_wait(word, seen, meanwhile ? kMeanwhileNs : kRecheckNs);
  }
}

void SharedBoard::abort() noexcept {
  aborted_ = true;
  for (int peer = 0; peer < size_; ++peer) futex_wake(ended(peer));
}

}  // namespace hgt
