#include "hgtrain/ops/norm.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/ops/dropout.h"

#include "on_device.h"

using namespace hgt;
using namespace on_device;

namespace norm_test {
namespace {

constexpr std::int64_t kRows = 5, kHeads = 3, kWidth = 13;
constexpr std::int64_t kStride = 2 + kHeads * kWidth;  // rows of heads lie in a wider matrix
constexpr double kEps = 1e-5;

Doubles layer_norm(const Doubles& x, const Doubles& gain, const Doubles& bias) {
  Doubles y;
  for (std::size_t n = 0; n < kRows; ++n) {
    double mean = 0, variance = 0;
    for (std::size_t c = 0; c < kWidth; ++c) mean += x[n * kWidth + c] / kWidth;
    for (std::size_t c = 0; c < kWidth; ++c)
      variance += std::pow(x[n * kWidth + c] - mean, 2) / kWidth;
    for (std::size_t c = 0; c < kWidth; ++c)
      y.push_back((x[n * kWidth + c] - mean) / std::sqrt(variance + kEps) * gain[c] + bias[c]);
  }
  return y;
}

struct LayerNormCase {
  Floats x = random_floats(kRows * kWidth, 1, 3), gain = random_floats(kWidth, 2);
  Floats bias = random_floats(kWidth, 3), dy = random_floats(kRows * kWidth, 4);
  Floats y = Floats(kRows * kWidth), mean = Floats(kRows), rstd = Floats(kRows);
  Floats dx = random_floats(kRows * kWidth, 5), dgain = random_floats(kWidth, 6);
  Floats dbias = random_floats(kWidth, 7);

  void run(int threads, bool accumulate) {
    ThreadPool pool(threads);
    const Stream stream(pool);
    const auto rows = [](Floats& v) { return tensor(v, {kRows, kWidth}); };
    const auto row = [](Floats& v) { return tensor(v, {kWidth}); };
    const auto column = [](Floats& v) { return tensor(v, {kRows}); };
    norm_fwd(rows(x), row(gain), row(bias), static_cast<float>(kEps), rows(y), column(mean),
             column(rstd), stream);
    norm_bwd(rows(dy), rows(x), row(gain), column(mean), column(rstd), accumulate, rows(dx),
             row(dgain), row(dbias), stream);
  }
};

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

struct RmsNormCase {
  Floats x = random_floats(kRows * kStride, 1, 2), gain = random_floats(kWidth, 2);
  Floats dy = random_floats(kRows * kStride, 3), dgain = random_floats(kWidth, 4);
  Floats dx = random_floats(kRows * kStride, 5);
  Floats y = Floats(kRows * kStride), rrms = Floats(kRows * kHeads);

  void run(int threads, bool accumulate) {
    ThreadPool pool(threads);
    const Stream stream(pool);
    norm_fwd(heads(x), tensor(gain, {kWidth}), {}, static_cast<float>(kEps), heads(y), {},
             tensor(rrms, {kRows, kHeads}), stream);
    norm_bwd(heads(dy), heads(x), tensor(gain, {kWidth}), {}, tensor(rrms, {kRows, kHeads}),
             accumulate, heads(dx), tensor(dgain, {kWidth}), {}, stream);
  }
};

}  // namespace

TEST_CASE("layer norm forward and backward") {
  LayerNormCase c;
  const Doubles x = doubles(c.x), gain = doubles(c.gain), bias = doubles(c.bias);
  const Doubles dx =
      numeric_gradient([&](const Doubles& v) { return layer_norm(v, gain, bias); }, x, c.dy);
  const Doubles accumulated = sum_of(c.dx, dx);
  const Doubles dgain = sum_of(
      c.dgain,
      numeric_gradient([&](const Doubles& v) { return layer_norm(x, v, bias); }, gain, c.dy));
  const Doubles dbias = sum_of(
      c.dbias,
      numeric_gradient([&](const Doubles& v) { return layer_norm(x, gain, v); }, bias, c.dy));
  c.run(2, true);
  CHECK(error_of(c.y, layer_norm(x, gain, bias)) < 1e-6);
  CHECK(error_of(c.dx, accumulated) < 2e-6);
  CHECK(error_of(c.dgain, dgain) < 2e-6);
  CHECK(error_of(c.dbias, dbias) < 2e-6);

  LayerNormCase overwritten;
  overwritten.run(2, false);
  CHECK(error_of(overwritten.dx, dx) < 2e-6);
}

TEST_CASE("layer norm has the same bits for any number of threads") {
  LayerNormCase one, three;
  one.run(1, true);
  three.run(3, true);
  CHECK(one.y == three.y);
  CHECK(one.dx == three.dx);
  CHECK(one.dgain == three.dgain);
  CHECK(one.dbias == three.dbias);
}

TEST_CASE("adding before a layer norm in one pass has the bits of adding first") {
  LayerNormCase one, two;
  ThreadPool pool(2);
  const auto rows = [](Floats& v) { return tensor(v, {kRows, kWidth}); };
  dropout_add(rows(one.x), rows(one.dy), {}, rows(one.x), pool);
  one.run(2, true);
  add_norm_fwd(rows(two.x), rows(two.dy), tensor(two.gain, {kWidth}), tensor(two.bias, {kWidth}),
               static_cast<float>(kEps), rows(two.x), rows(two.y), tensor(two.mean, {kRows}),
               tensor(two.rstd, {kRows}), pool);
  CHECK(two.x == one.x);
  CHECK(two.y == one.y);
  CHECK(two.mean == one.mean);
  CHECK(two.rstd == one.rstd);
  CHECK_THROWS_AS(add_norm_fwd(rows(two.x), tensor(two.gain, {kWidth}), tensor(two.gain, {kWidth}),
                               tensor(two.bias, {kWidth}), 1e-5f, rows(two.x), rows(two.y),
                               tensor(two.mean, {kRows}), tensor(two.rstd, {kRows}), pool),
                  Error);
}

TEST_CASE("layer norm refuses a gain of another width") {
  Floats x(6), gain(2), rows(2);
  ThreadPool pool(1);
  CHECK_THROWS_AS(norm_fwd(tensor(x, {2, 3}), tensor(gain, {2}), tensor(gain, {2}), 1e-5f,
                           tensor(x, {2, 3}), tensor(rows, {2}), tensor(rows, {2}), Stream(pool)),
                  Error);
}

TEST_CASE("CUDA: a layer norm equals the CPU's", "[norm]") {
  for (const DType type : kTypes)
    for (const std::int64_t width :
         {7, 16, 33, 256, 512, 700, 768, 1024, 1025, 1536, 1600, 4100, 4104})
      for (const bool accumulate : {false, true}) {
        if (type == DType::kF32 && width > 4096) continue;  // wider than the kernels support
        // Of 16: more rows than the threads of a wave, so that some take a second one.
        const std::int64_t count = width == 16 ? 5000 : width > 33 ? 3 : 70;
        const Shape rows = {count, width}, row = {width}, column = {count};
        compare(
            {normal(rows, 1, 3, type), normal(row, 2, 1, type), normal(row, 3, 1, type),
             normal(rows, 4, 1, type), normal(column, 5), normal(column, 6),
             normal(rows, 7, 1, type), normal(row, 8), normal(row, 9), normal(rows, 10, 1, type)},
            [=](const std::vector<Tensor>& x, Stream stream) {
              norm_fwd(x[0], x[1], x[2], 1e-5f, x[3], x[4], x[5], stream);
              const Tensor& dx = accumulate ? x[6] : x[9];  // in place if it is not added to
              norm_bwd(x[9], x[0], x[1], x[4], x[5], accumulate, dx, x[7], x[8], stream);
            },
            tolerance_of(type, 2e-4));
      }
}

TEST_CASE("CUDA: a layer norm that adds in one pass equals adding first", "[norm]") {
  for (const DType type : kTypes)
    for (const std::int64_t width : {7, 64, 1025, 1600, 2060}) {
      const Shape rows = {9, width}, row = {width}, column = {9};
      std::vector<Operand> operands{normal(rows, 1, 3, type), normal(rows, 2, 1, type),
                                    normal(row, 3, 1, type), normal(row, 4, 1, type)};
      for (int i = 0; i < 4; ++i) operands.push_back(normal(rows, 5, 1, type));
      for (int i = 0; i < 4; ++i) operands.push_back(normal(column, 6));
      compare_pairs(
          operands, 4,
          [](const std::vector<Tensor>& x, Stream stream) {
            add_norm_fwd(x[0], x[1], x[2], x[3], 1e-5f, x[4], x[6], x[8], x[10], stream);
            dropout_add(x[0], x[1], {}, x[5], stream);
            norm_fwd(x[5], x[2], x[3], 1e-5f, x[7], x[9], x[11], stream);
          },
          tolerance_of(type, 2e-5));
    }
}

TEST_CASE("RMS norm of strided heads, forward and backward") {
  RmsNormCase c;
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

  RmsNormCase overwritten;
  overwritten.run(3, false);
  CHECK(error_of(packed(overwritten.dx), dx) < 2e-6);
  CHECK(overwritten.dgain == c.dgain);
}

TEST_CASE("RMS norm refuses a gain of another width") {
  Floats x(12), gain(4), rrms(4);
  ThreadPool pool(1);
  CHECK_THROWS_AS(norm_fwd(tensor(x, {2, 2, 3}), tensor(gain, {4}), {}, 1e-6f, tensor(x, {2, 2, 3}),
                           {}, tensor(rrms, {2, 2}), Stream(pool)),
                  Error);
}

TEST_CASE("a norm refuses a bias without a mean") {
  Floats x(6), gain(3), rows(2);
  ThreadPool pool(1);
  CHECK_THROWS_WITH(norm_fwd(tensor(x, {2, 3}), tensor(gain, {3}), tensor(gain, {3}), 1e-5f,
                             tensor(x, {2, 3}), {}, tensor(rows, {2}), pool),
                    "layer_norm_fwd: mean is given without a bias, or the bias without it");
}

TEST_CASE("adding before an RMS norm in one pass has the bits of adding first") {
  RmsNormCase one, two;
  ThreadPool pool(2);
  for (std::size_t i = 0; i < one.x.size(); ++i) one.x[i] += one.dy[i];
  one.run(2, true);
  const Tensor scales = tensor(two.rrms, {kRows, kHeads});
  add_norm_fwd(heads(two.x), heads(two.dy), tensor(two.gain, {kWidth}), {},
               static_cast<float>(kEps), heads(two.x), heads(two.y), {}, scales, pool);
  CHECK(packed(two.x) == packed(one.x));
  CHECK(two.y == one.y);
  CHECK(two.rrms == one.rrms);
  CHECK_THROWS_AS(
      add_norm_fwd(heads(two.x), tensor(two.gain, {1, 1, kWidth}), tensor(two.gain, {kWidth}), {},
                   1e-5f, heads(two.x), heads(two.y), {}, scales, pool),
      Error);
}

TEST_CASE("CUDA: an RMS norm of the heads of a fused projection equals the CPU's", "[norm]") {
  for (const DType type : kTypes)
    for (const std::int64_t width : {40, 64, 340, 700, 2060})
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
              norm_fwd(view(x[0]), x[1], {}, 1e-6f, view(x[2]), {}, x[3], stream);
              norm_bwd(view(x[6]), view(x[0]), x[1], {}, x[3], accumulate,
                       view(accumulate ? x[4] : x[6]), x[5], {}, stream);
            },
            tolerance_of(type, 2e-4));
      }
}

TEST_CASE("CUDA: an RMS norm that adds in one pass equals adding first", "[norm]") {
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
            add_norm_fwd(x[0], x[1], x[2], {}, 1e-5f, x[3], x[5], {}, x[7], stream);
            dropout_add(x[0], x[1], {}, x[4], stream);
            norm_fwd(x[4], x[2], {}, 1e-5f, x[6], {}, x[8], stream);
          },
          tolerance_of(type, 2e-5));
    }
}

}  // namespace norm_test
