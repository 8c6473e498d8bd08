#include <catch2/catch.hpp>

#include "contract.h"

using namespace hgt;

TEST_CASE("over TCP: sums are right and bit-identical on all ranks and from run to run") {
  check_sums(over_tcp);
}

TEST_CASE("over TCP: sums of 16-bit values are rounded once") {
  check_16_bit_sums(over_tcp);
}

TEST_CASE("over TCP: fp64 sums, broadcasts and barriers") {
  check_other_collectives(over_tcp);
}

TEST_CASE(
    "over TCP: started sums run in order while the caller continues, and their bytes are "
    "counted") {
  check_started_sums(over_tcp);
}

TEST_CASE("over TCP: reduce-scatters and all-gathers of parts of all kinds, summed in rank order") {
  check_parts(over_tcp);
}

TEST_CASE("over TCP: collectives of all kinds are in flight at once") {
  check_started_parts(over_tcp);
}

TEST_CASE("over TCP: parts that do not fit are refused before the collective is entered") {
  check_wrong_parts(over_tcp);
}

TEST_CASE("over TCP: ranks that disagree about a collective get an error that names both") {
  check_disagreement(over_tcp);
}

TEST_CASE("over TCP: a peer that leaves is named, with the collective that missed it") {
  check_lost_peer(over_tcp);
}

TEST_CASE("over TCP: a peer that does not come is named on timeout") {
  check_timeout(over_tcp);
}

TEST_CASE("over TCP: abort wakes a rank that waits, and later calls throw too") {
  check_abort(over_tcp);
}
