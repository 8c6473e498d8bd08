#include <catch2/catch.hpp>

#include "contract.h"
#include "shared_board.h"

using namespace hgt;

TEST_CASE("over shared memory: sums are right and bit-identical on all ranks and from run to run") {
  check_sums(over_shared_memory);
}

TEST_CASE("over shared memory: sums of 16-bit values are rounded once") {
  check_16_bit_sums(over_shared_memory);
}

TEST_CASE("over shared memory: fp64 sums, broadcasts and barriers") {
  check_other_collectives(over_shared_memory);
}

TEST_CASE(
    "over shared memory: started sums run in order while the caller continues, and their bytes are "
    "counted") {
  check_started_sums(over_shared_memory);
}

TEST_CASE(
    "over shared memory: reduce-scatters and all-gathers of parts of all kinds, summed in rank "
    "order") {
  check_parts(over_shared_memory);
}

TEST_CASE("over shared memory: collectives of all kinds are in flight at once") {
  check_started_parts(over_shared_memory);
}

TEST_CASE(
    "over shared memory: parts that do not fit are refused before the collective is entered") {
  check_wrong_parts(over_shared_memory);
}

TEST_CASE(
    "over shared memory: ranks that disagree about a collective get an error that names both") {
  check_disagreement(over_shared_memory);
}

TEST_CASE("over shared memory: a peer that leaves is named, with the collective that missed it") {
  check_lost_peer(over_shared_memory);
}

TEST_CASE("over shared memory: a peer that does not come is named on timeout") {
  check_timeout(over_shared_memory);
}

TEST_CASE("over shared memory: abort wakes a rank that waits, and later calls throw too") {
  check_abort(over_shared_memory);
}

TEST_CASE("over shared memory: sums of several pieces, in rank order") {
  constexpr std::size_t kCount = 2 * SharedBoard::kPieceBytes / sizeof(float) + 77;
  const auto errors = run_ranks(over_shared_memory, 3, [](Communicator& comm) {
    auto values = awkward(comm.rank(), kCount);
    comm.all_reduce_sum(values);
    const auto a = awkward(0, kCount), b = awkward(1, kCount), c = awkward(2, kCount);
    for (std::size_t i = 0; i < kCount; ++i)
      if (values[i] != (a[i] + b[i]) + c[i]) throw Error(ErrorKind::kInternal, "wrong sum");
    std::vector<float> empty;
    comm.all_reduce_sum(empty);
  });
  CHECK(errors == kNoErrors3);
}

TEST_CASE("if one rank cannot share memory, no rank does") {
  MemoryChannel channel;
  channel.set("comm/world/shared/0", "/proc/1/fd/1/hgtrain-a-name-of-another-machine");
  channel.set("comm/world/shared/1", "");
  CHECK(connect_shared_memory(channel, {.rank = 1, .size = 2}) == nullptr);
  CHECK(connect_shared_memory(channel, {.rank = 0, .size = 1 << 30}) == nullptr);
}
