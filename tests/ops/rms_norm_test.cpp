#include "hgtrain/ops/rms_norm.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "reference.h"

using namespace hgt;

namespace {

constexpr std::int64_t kRows = 4, kHeads = 3, kWidth = 7;
constexpr std::int64_t kStride = 2 + kHeads * kWidth;  // rows lie in a wider matrix
constexpr double kEps = 1e-6;

/// The kRows x kHeads vectors, which are contiguous here.
Doubles rms_norm(const Doubles& x, const Doubles& gain) {
  Doubles y;
  for (std::size_t i = 0; i < kRows * kHeads; ++i) {
    double squares = 0;
    for (std::size_t c = 0; c < kWidth; ++c) squares += std::pow(x[i * kWidth + c], 2);
    for (std::size_t c = 0; c < kWidth; ++c)
      y.push_back(x[i * kWidth + c] / std::sqrt(squares / kWidth + kEps) * gain[c]);
  }
  return y;
}

/// [N, H, C] with gaps between rows.
Tensor heads(Floats& wide) {
  return tensor(wide, {kRows, kStride}).slice(1, 2, kStride).split(1, kHeads);
}

Floats packed(const Floats& wide) {
  Floats out;
  for (std::size_t n = 0; n < kRows; ++n)
    out.insert(out.end(), wide.begin() + static_cast<std::ptrdiff_t>(n * kStride + 2),
               wide.begin() + static_cast<std::ptrdiff_t>((n + 1) * kStride));
  return out;
}

struct Case {
  Floats x = random_floats(kRows * kStride, 1, 2), gain = random_floats(kWidth, 2);
  Floats dy = random_floats(kRows * kStride, 3), dgain = random_floats(kWidth, 4);
  Floats dx = random_floats(kRows * kStride, 5);
  Floats y = Floats(kRows * kStride), rrms = Floats(kRows * kHeads);

  void run(int threads, bool accumulate) {
    ThreadPool pool(threads);
    const Stream stream(pool);
    rms_norm_fwd(heads(x), tensor(gain, {kWidth}), static_cast<float>(kEps), heads(y),
                 tensor(rrms, {kRows, kHeads}), stream);
    rms_norm_bwd(heads(dy), heads(x), tensor(gain, {kWidth}), tensor(rrms, {kRows, kHeads}),
                 accumulate, heads(dx), tensor(dgain, {kWidth}), stream);
  }
};

}  // namespace

TEST_CASE("rms norm of strided heads, forward and backward") {
  Case c;
  const Doubles x = doubles(packed(c.x)), gain = doubles(c.gain);
  const Floats dy = packed(c.dy);
  const Doubles dx = numeric_gradient([&](const Doubles& v) { return rms_norm(v, gain); }, x, dy);
  const Doubles accumulated = sum_of(packed(c.dx), dx);
  const Doubles dgain =
      sum_of(c.dgain, numeric_gradient([&](const Doubles& v) { return rms_norm(x, v); }, gain, dy));
  c.run(2, true);
  CHECK(error_of(packed(c.y), rms_norm(x, gain)) < 1e-6);
  CHECK(error_of(packed(c.dx), accumulated) < 2e-6);
  CHECK(error_of(c.dgain, dgain) < 2e-6);
  CHECK(c.y[0] == 0);  // outside the heads

  Case overwritten;
  overwritten.run(3, false);
  CHECK(error_of(packed(overwritten.dx), dx) < 2e-6);
  CHECK(overwritten.dgain == c.dgain);
}

TEST_CASE("rms norm refuses a gain of another width") {
  Floats x(12), gain(4), rrms(4);
  ThreadPool pool(1);
  CHECK_THROWS_AS(rms_norm_fwd(tensor(x, {2, 2, 3}), tensor(gain, {4}), 1e-6f, tensor(x, {2, 2, 3}),
                               tensor(rrms, {2, 2}), Stream(pool)),
                  Error);
}

TEST_CASE("adding before an RMS norm in one pass has the bits of adding first") {
  Case one, two;
  ThreadPool pool(2);
  for (std::size_t i = 0; i < one.x.size(); ++i) one.x[i] += one.dy[i];
  one.run(2, true);
  const Tensor scales = tensor(two.rrms, {kRows, kHeads});
  add_rms_norm_fwd(heads(two.x), heads(two.dy), tensor(two.gain, {kWidth}),
                   static_cast<float>(kEps), heads(two.x), heads(two.y), scales, pool);
  CHECK(packed(two.x) == packed(one.x));
  CHECK(two.y == one.y);
  CHECK(two.rrms == one.rrms);
  CHECK_THROWS_AS(
      add_rms_norm_fwd(heads(two.x), tensor(two.gain, {1, 1, kWidth}), tensor(two.gain, {kWidth}),
                       1e-5f, heads(two.x), heads(two.y), scales, pool),
      Error);
}
