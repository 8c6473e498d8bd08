#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/comm/connect.h"

using namespace hgt;

TEST_CASE("a world of one sums to itself and counts like any other") {
  const auto comm = make_self_communicator();
  std::vector<float> values{1, 2, 3};
  comm->wait(comm->start_all_reduce_sum(values));
  comm->barrier();
  CHECK(values == std::vector<float>{1, 2, 3});
  CHECK(comm->size() == 1);
  CHECK(comm->reduced_bytes() == 12);
  CHECK(comm->sequence() == 2);
  comm->abort();
  CHECK_THROWS_AS(comm->barrier(), Error);
}
