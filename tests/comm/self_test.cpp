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
  const std::vector<OwnedRange> parts{{{0, 3}, 0}};
  comm->wait(comm->start_reduce_scatter_sum(values, parts));
  CHECK(values == std::vector<float>{1, 2, 3});
  CHECK(comm->reduced_bytes() == 24);
  std::vector<std::byte> bytes(3, std::byte{7});
  comm->wait(comm->start_all_gather(bytes, parts));
  CHECK(bytes == std::vector<std::byte>(3, std::byte{7}));
  CHECK(comm->gathered_bytes() == 3);
  CHECK_THROWS_AS(comm->all_gather(std::span(bytes).first(2), parts), Error);
  CHECK(comm->sequence() == 4);
  comm->abort();
  CHECK_THROWS_AS(comm->barrier(), Error);
}

TEST_CASE("a rank that does alone what it would do with others changes no memory") {
  const auto comm = make_self_communicator(1, 3);
  CHECK(comm->rank() == 1);
  CHECK(comm->size() == 3);
  std::vector<float> values{1, 2, 3};
  const std::vector<OwnedRange> parts{{{0, 1}, 0}, {{1, 2}, 1}, {{2, 3}, 2}};
  comm->all_reduce_sum(values);
  comm->reduce_scatter_sum(values, parts);
  CHECK(values == std::vector<float>{1, 2, 3});
  CHECK_THROWS_AS(comm->reduce_scatter_sum(values, std::vector<OwnedRange>{{{0, 3}, 3}}), Error);
}
