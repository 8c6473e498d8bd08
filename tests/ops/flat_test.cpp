#include "hgtrain/ops/flat.h"

#include <algorithm>
#include <cmath>
#include <limits>
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

namespace {

double squares_of(std::vector<float>& values, int threads) {
  ThreadPool pool(threads);
  double out = -1;
  sum_of_squares(Tensor(values.data(), {std::ssize(values)}), Tensor(&out, {1}, DType::kF64), pool);
  return out;
}

}  // namespace

TEST_CASE("a sum of squares is exact to fp64 and the same for any number of threads") {
  std::vector<float> values(300'001), none;
  double squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i)) * 1e18f;
    squares += static_cast<double>(values[i]) * values[i];
  }
  const double sum = squares_of(values, 1);
  CHECK(sum == Approx(squares).epsilon(1e-12));
  CHECK(squares_of(values, 3) == sum);
  CHECK(squares_of(none, 1) == 0);
}

TEST_CASE("one element that is not finite shows in the sum of squares") {
  std::vector<float> values(1000, 1.0f);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    values[777] = bad;
    CHECK_FALSE(std::isfinite(squares_of(values, 1)));
  }
}
