#include "hgtrain/ops/rope.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "reference.h"

using namespace hgt;

namespace {

constexpr std::int64_t kBatch = 2, kLength = 3, kHeads = 2, kDim = 6, kHalf = kDim / 2;

/// HF's form: x cos + rotate_half(x) sin, with cos and sin repeated over both halves.
Doubles rotated(const Doubles& x, const Floats& cos, const Floats& sin) {
  Doubles y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t d = i % kDim, t = i / (kHeads * kDim) % kLength;
    const double half = d < kHalf ? -x[i + kHalf] : x[i - kHalf];
    y[i] = x[i] * static_cast<double>(cos[t * kHalf + d % kHalf]) +
           half * static_cast<double>(sin[t * kHalf + d % kHalf]);
  }
  return y;
}

}  // namespace

TEST_CASE("rope turns pairs of halves, and its backward is the transposed matrix") {
  const Floats x = random_floats(kBatch * kLength * kHeads * kDim, 1);
  // Any factors, not only cosines: scaled tables (yarn) are no rotations.
  Floats cos = random_floats(kLength * kHalf, 2), sin = random_floats(kLength * kHalf, 3);
  Floats y = x, dx = random_floats(static_cast<std::int64_t>(x.size()), 4);
  const Floats dy = dx;
  ThreadPool pool(2);
  const Tensor c = tensor(cos, {kLength, kHalf}), s = tensor(sin, {kLength, kHalf});
  rope_fwd(tensor(y, {kBatch, kLength, kHeads, kDim}), c, s, Stream(pool));
  CHECK(error_of(y, rotated(doubles(x), cos, sin)) < 1e-6);
  rope_bwd(tensor(dx, {kBatch, kLength, kHeads, kDim}), c, s, Stream(pool));
  CHECK(error_of(dx, numeric_gradient([&](const Doubles& v) { return rotated(v, cos, sin); },
                                      doubles(x), dy)) < 1e-6);
}

TEST_CASE("rope refuses an odd head and tables of another length") {
  Floats x(30), table(6);
  ThreadPool pool(1);
  CHECK_THROWS_AS(
      rope_fwd(tensor(x, {1, 2, 3, 5}), tensor(table, {2, 2}), tensor(table, {2, 2}), Stream(pool)),
      Error);
  CHECK_THROWS_AS(
      rope_fwd(tensor(x, {1, 2, 3, 4}), tensor(table, {3, 2}), tensor(table, {3, 2}), Stream(pool)),
      Error);
}
