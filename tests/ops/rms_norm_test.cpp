#include "hgtrain/ops/rms_norm.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/ops/dropout.h"

#include "on_device.h"

using namespace hgt;
using namespace on_device;

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

TEST_CASE("CUDA: RMS norm of the heads of a fused projection", "[rms_norm]") {
  for (const DType type : kTypes)
    for (const std::int64_t width : {40, 64, 700, 2060})
      for (const bool accumulate : {false, true}) {
        const std::int64_t rows = 9, heads = 3;
        const Shape wide = {rows, heads * width + 8};
        compare(
            {normal(wide, 1, 1, type), normal({width}, 2, 1, type), normal(wide, 3, 1, type),
             normal({rows, heads}, 4), normal(wide, 5, 1, type), normal({width}, 6),
             normal(wide, 7, 1, type)},
            [=](const std::vector<Tensor>& x, Stream stream) {
              const auto view = [&](const Tensor& t) {
                return t.slice(1, 0, heads * width).split(1, heads);
              };
              rms_norm_fwd(view(x[0]), x[1], 1e-6f, view(x[2]), x[3], stream);
              rms_norm_bwd(view(x[6]), view(x[0]), x[1], x[3], accumulate,
                           view(accumulate ? x[4] : x[6]), x[5], stream);
            },
            tolerance_of(type, 2e-4));
      }
}

TEST_CASE("CUDA: an RMS norm that adds in one pass equals adding first", "[rms_norm]") {
  for (const DType type : kTypes)
    for (const std::int64_t width : {7, 64, 1025, 2060}) {
      const Shape rows = {9, 1, width};
      std::vector<Operand> operands{normal(rows, 1, 3, type), normal(rows, 2, 1, type),
                                    normal({width}, 3, 1, type)};
      for (int i = 0; i < 4; ++i) operands.push_back(normal(rows, 5, 1, type));
      for (int i = 0; i < 2; ++i) operands.push_back(normal({9, 1}, 6));
      compare_pairs(
          operands, 3,
          [](const std::vector<Tensor>& x, Stream stream) {
            add_rms_norm_fwd(x[0], x[1], x[2], 1e-5f, x[3], x[5], x[7], stream);
            dropout_add(x[0], x[1], {}, x[4], stream);
            rms_norm_fwd(x[4], x[2], 1e-5f, x[6], x[8], stream);
          },
          tolerance_of(type, 2e-5));
    }
}
