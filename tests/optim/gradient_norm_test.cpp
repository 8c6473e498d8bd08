#include "hgtrain/optim/gradient_norm.h"

#include <cmath>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/device/thread_pool.h"

using namespace hgt;

namespace {

double norm_of(std::vector<float>& values, ThreadPool& pool) {
  return GradientNorm(pool).of(Tensor(values.data(), {std::ssize(values)}));
}

}  // namespace

TEST_CASE("the norm is exact to fp64 and the same for any number of threads") {
  std::vector<float> values(300'001);
  double squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i)) * 1e18f;
    squares += static_cast<double>(values[i]) * values[i];
  }
  ThreadPool one(1), three(3);
  const double norm = norm_of(values, one);
  CHECK(norm == Approx(std::sqrt(squares)).epsilon(1e-12));
  CHECK(norm_of(values, three) == norm);
  std::vector<float> none;
  CHECK(norm_of(none, one) == 0);
}

TEST_CASE("one element that is not finite shows in the norm and is found") {
  std::vector<float> values(1000, 1.0f);
  ThreadPool pool(1);
  CHECK(first_non_finite(values) == -1);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    values[777] = bad;
    CHECK_FALSE(std::isfinite(norm_of(values, pool)));
    CHECK(first_non_finite(values) == 777);
  }
}

TEST_CASE("gradients are scaled down to the clip and never up") {
  CHECK(clip_factor(10, 1) == Approx(1 / (10 + 1e-6)));
  CHECK(clip_factor(0.5, 1) == 1);
  CHECK(clip_factor(10, 0) == 1);
}
