#include "hgtrain/ops/rope.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "on_device.h"

using namespace hgt;
using namespace on_device;

namespace rope_test {
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
  // The factors need not be cosines: scaled tables (yarn) are no rotations.
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

TEST_CASE("rope turns a token by the position it is given") {
  Floats table_cos = random_floats(kLength * kHalf, 2),
         table_sin = random_floats(kLength * kHalf, 3);
  Floats packed = random_floats(kLength * kHeads * kDim, 1), apart = packed;
  std::vector<std::int32_t> positions{0, 0, 1};
  ThreadPool pool(2);
  const Tensor c = tensor(table_cos, {kLength, kHalf}), s = tensor(table_sin, {kLength, kHalf});
  const Tensor one = tensor(packed, {1, kLength, kHeads, kDim});
  const Tensor two = tensor(apart, {1, kLength, kHeads, kDim});
  const Tensor ids(positions.data(), {1, kLength}, DType::kI32);
  rope_fwd(one, c, s, Stream(pool), ids);
  rope_fwd(two.slice(1, 0, 1), c.slice(0, 0, 1), s.slice(0, 0, 1), Stream(pool));
  rope_fwd(two.slice(1, 1, 3), c.slice(0, 0, 2), s.slice(0, 0, 2), Stream(pool));
  CHECK(packed == apart);
  rope_bwd(one, c, s, Stream(pool), ids);
  rope_bwd(two.slice(1, 0, 1), c.slice(0, 0, 1), s.slice(0, 0, 1), Stream(pool));
  rope_bwd(two.slice(1, 1, 3), c.slice(0, 0, 2), s.slice(0, 0, 2), Stream(pool));
  CHECK(packed == apart);
  positions[1] = kLength;
  CHECK_THROWS_AS(rope_fwd(one, c, s, Stream(pool), ids), Error);
}

TEST_CASE("rope turns tokens of a part of the positions as it turns all") {
  Floats table_cos = random_floats(kLength * kHalf, 2),
         table_sin = random_floats(kLength * kHalf, 3);
  Floats whole = random_floats(kLength * kHeads * kDim, 1);
  Floats part(whole.end() - 2 * kHeads * kDim, whole.end());
  std::vector<std::int32_t> positions{kLength - 2, kLength - 1};
  ThreadPool pool(2);
  const Tensor c = tensor(table_cos, {kLength, kHalf}), s = tensor(table_sin, {kLength, kHalf});
  rope_fwd(tensor(whole, {1, kLength, kHeads, kDim}), c, s, Stream(pool));
  rope_fwd(tensor(part, {1, 2, kHeads, kDim}), c, s, Stream(pool),
           Tensor(positions.data(), {1, 2}, DType::kI32));
  CHECK(std::equal(part.begin(), part.end(), whole.end() - 2 * kHeads * kDim));
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

TEST_CASE("CUDA: rotary positions equal the CPU's", "[rope]") {
  for (const DType type : kTypes)
    for (const std::int64_t width : {8, 32, 34})
      compare(
          {normal({2, 5, 3, width}, 1, 1, type), normal({5, width / 2}, 2),
           normal({5, width / 2}, 3), normal({2, 5, 3, width}, 4, 1, type),
           document_positions(2, 5, 3), normal({2, 3, 3, width}, 5, 1, type),
           integers({2, 3}, 5, 4)},
          [](const std::vector<Tensor>& x, Stream stream) {
            rope_fwd(x[0], x[1], x[2], stream);
            rope_bwd(x[3], x[1], x[2], stream, x[4]);
            rope_fwd(x[5], x[1], x[2], stream, x[6]);
          },
          tolerance_of(type, 2e-5));
}

}  // namespace rope_test
