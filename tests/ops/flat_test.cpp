#include "hgtrain/ops/flat.h"

#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/device/thread_pool.h"

using namespace hgt;

TEST_CASE("clear leaves zeros, and nothing else changed") {
  ThreadPool pool(3);
  std::vector<float> values(1003, 1.0f);
  clear(Tensor(values.data() + 1, {1001}), pool);
  CHECK(values.front() == 1);
  CHECK(values.back() == 1);
  CHECK(std::all_of(values.begin() + 1, values.end() - 1, [](float x) { return x == 0; }));
}

TEST_CASE("sum adds in fp64") {
  ThreadPool pool(2);
  std::vector<float> values(1001, 1.0f);
  values[0] = 1e9f;
  double total = -1;
  const Tensor out(&total, {1}, DType::kF64);
  sum(Tensor(values.data(), {1001}), out, pool);
  CHECK(total == 1e9 + 1000);
  sum(Tensor(values.data(), {0}), out, pool);
  CHECK(total == 0);
  CHECK_THROWS_AS(sum(Tensor(values.data(), {3}), Tensor(values.data(), {1}), pool), Error);
}
