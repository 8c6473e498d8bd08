#include "hgtrain/ops/normal.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "reference.h"

using namespace hgt;

namespace {

Floats drawn(std::int64_t count, int threads) {
  Floats out(static_cast<std::size_t>(count));
  ThreadPool pool(threads);
  normal_fill(7, 1, 0.5f, 0, tensor(out, {count}), Stream(pool));
  return out;
}

}  // namespace

TEST_CASE("normal numbers are Box and Muller's of their words") {
  const Floats out = drawn(64 * 3000, 2);
  double worst = 0;
  for (std::size_t e = 0; e < out.size(); ++e) {
    const std::size_t word = e / 16 % 4;
    const auto words = philox(7, 1, e / 64 * 16 + e % 16);
    const auto pair = normal2(words[word / 2 * 2], words[word / 2 * 2 + 1]);
    worst = std::max(worst, std::abs(static_cast<double>(out[e]) - 0.5 * pair[word % 2]));
  }
  CHECK(worst < 2e-6);
}

TEST_CASE("normal numbers have their mean, variance and tails") {
  const Floats out = drawn(1 << 20, 2);
  double sum = 0, squares = 0;
  int beyond_two = 0;
  for (const float x : out) {
    sum += static_cast<double>(x);
    squares += static_cast<double>(x) * x;
    beyond_two += std::abs(x) > 1.0f;
  }
  const double n = static_cast<double>(out.size());
  CHECK(std::abs(sum / n) < 0.5 * 5 / std::sqrt(n));
  CHECK(squares / n == Approx(0.25).epsilon(0.007));
  CHECK(beyond_two / n == Approx(0.0455).epsilon(0.03));
}

TEST_CASE("a normal number depends on its index alone") {
  const Floats whole = drawn(1000, 3), part = drawn(137, 1);
  CHECK(std::equal(part.begin(), part.end(), whole.begin()));
  Floats out(4);
  ThreadPool pool(1);
  CHECK_THROWS_AS(normal_fill(1, 1, 1, 0, tensor(out, {2, 2}), Stream(pool)), Error);
}
