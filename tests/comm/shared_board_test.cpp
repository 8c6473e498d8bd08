#include "shared_board.h"

#include <atomic>
#include <thread>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

namespace {

/// Two boards over one segment.
struct PairOfBoards {
  explicit PairOfBoards(std::chrono::milliseconds timeout)
      : PairOfBoards(timeout, SharedSegment::create(SharedBoard::bytes(2))) {}
  PairOfBoards(std::chrono::milliseconds timeout, SharedSegment made)
      : second(held(SharedSegment::open(made.name(), SharedBoard::bytes(2)), 1),
               {.rank = 1, .size = 2, .timeout = timeout}),
        first(held(std::move(made), 0), {.rank = 0, .size = 2, .timeout = timeout}) {}

  static SharedSegment held(SharedSegment segment, int rank) {
    segment.hold(rank);
    return segment;
  }

  SharedBoard second, first;
};

}  // namespace

TEST_CASE("each turn's pieces are there for all ranks, and stay for the next turn") {
  PairOfBoards pair(std::chrono::seconds(30));
  const auto play = [](SharedBoard& board, bool& right) {
    for (int turn = 1; turn < 3000; ++turn) {
      board.piece(board.rank(), 0)[5] = std::byte(turn);
      board.next_turn();
      const std::byte now{static_cast<unsigned char>(turn)};
      const std::byte before{static_cast<unsigned char>(turn - 1)};
      for (const int peer : {0, 1})
        right &= board.piece(peer, 1)[5] == now && board.piece(peer, 2)[5] == before;
    }
  };
  bool right[2] = {true, true};
  std::thread other([&] { play(pair.second, right[1]); });
  play(pair.first, right[0]);
  other.join();
  CHECK(right[0]);
  CHECK(right[1]);
}

TEST_CASE("a rank that does not come ends the wait with its number") {
  PairOfBoards pair(std::chrono::milliseconds(100));
  CHECK_THROWS_WITH(pair.first.next_turn(), "rank 1 did not answer within 0.1 s");
}

TEST_CASE("while a rank waits, it does what another one may wait for") {
  PairOfBoards pair(std::chrono::seconds(30));
  std::atomic<int> calls = 0;
  std::thread other([&] {
    while (calls < 3) std::this_thread::yield();
    pair.second.next_turn();
  });
  CHECK_NOTHROW(pair.first.next_turn([&] { ++calls; }));
  CHECK(calls >= 3);
  other.join();
}

TEST_CASE("an aborted board waits no more") {
  PairOfBoards pair(std::chrono::seconds(30));
  std::thread other([&] { pair.first.abort(); });
  CHECK_THROWS_WITH(pair.first.next_turn(), "communication was aborted, because the job is ending");
  other.join();
}
