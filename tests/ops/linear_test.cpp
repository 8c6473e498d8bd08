#include "hgtrain/ops/linear.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "on_device.h"

using namespace hgt;
using namespace on_device;

namespace linear_test {
namespace {

constexpr std::int64_t kRows = 7, kIn = 5, kOut = 9;

Doubles linear(const Doubles& x, const Doubles& w, const Doubles& bias) {
  Doubles y;
  for (std::size_t n = 0; n < kRows; ++n)
    for (std::size_t o = 0; o < kOut; ++o) {
      double sum = bias[o];
      for (std::size_t i = 0; i < kIn; ++i) sum += x[n * kIn + i] * w[i * kOut + o];
      y.push_back(sum);
    }
  return y;
}

}  // namespace

TEST_CASE("linear is a product and a bias, forward and backward") {
  Floats x = random_floats(kRows * kIn, 1), w = random_floats(kIn * kOut, 2);
  Floats bias = random_floats(kOut, 3), y(kRows * kOut), dy = random_floats(kRows * kOut, 4);
  ThreadPool pool(2);
  const Stream stream(pool);
  const Tensor x_NI = tensor(x, {kRows, kIn}), w_IO = tensor(w, {kIn, kOut});
  linear_fwd(x_NI, w_IO, tensor(bias, {kOut}), tensor(y, {kRows, kOut}), stream);
  CHECK(error_of(y, linear(doubles(x), doubles(w), doubles(bias))) < 1e-6);

  Floats dx(x.size());
  linear_bwd_input(tensor(dy, {kRows, kOut}), w_IO, tensor(dx, {kRows, kIn}), stream);
  CHECK(error_of(dx, numeric_gradient(
                         [&](const Doubles& v) { return linear(v, doubles(w), doubles(bias)); },
                         doubles(x), dy)) < 1e-6);

  // Gradients are added to.
  Floats dw = random_floats(kIn * kOut, 5), dbias = random_floats(kOut, 6);
  const Doubles expected_dw = sum_of(
      dw, numeric_gradient([&](const Doubles& v) { return linear(doubles(x), v, doubles(bias)); },
                           doubles(w), dy));
  const Doubles expected_dbias = sum_of(
      dbias, numeric_gradient([&](const Doubles& v) { return linear(doubles(x), doubles(w), v); },
                              doubles(bias), dy));
  linear_bwd_weight(x_NI, tensor(dy, {kRows, kOut}), tensor(dw, {kIn, kOut}), tensor(dbias, {kOut}),
                    stream);
  CHECK(error_of(dw, expected_dw) < 1e-6);
  CHECK(error_of(dbias, expected_dbias) < 1e-6);
}

TEST_CASE("linear refuses a bias of another width") {
  Floats x(4), bias(3);
  ThreadPool pool(1);
  const Tensor square = tensor(x, {2, 2});
  CHECK_THROWS_AS(linear_fwd(square, square, tensor(bias, {3}), square, Stream(pool)), Error);
}

TEST_CASE("a linear layer with an activation equals the two in sequence") {
  Floats x = random_floats(kRows * kIn, 1), w = random_floats(kIn * kOut, 2),
         bias = random_floats(kOut, 3), dy = random_floats(kRows * kIn, 4), dpre(kRows * kOut),
         pre(kRows * kOut), y(kRows * kOut), expected_pre(kRows * kOut), expected(kRows * kOut);
  ThreadPool pool(1);
  const Stream stream(pool);
  const Tensor x_NI = tensor(x, {kRows, kIn}), w_IO = tensor(w, {kIn, kOut}),
               pre_NO = tensor(pre, {kRows, kOut}), expected_NO = tensor(expected, {kRows, kOut});
  linear_activation_fwd(Activation::kGeluTanh, x_NI, w_IO, tensor(bias, {kOut}), pre_NO,
                        tensor(y, {kRows, kOut}), stream);
  linear_fwd(x_NI, w_IO, tensor(bias, {kOut}), tensor(expected_pre, {kRows, kOut}), stream);
  CHECK(pre == expected_pre);
  activation_fwd(Activation::kGeluTanh, pre_NO, expected_NO, stream);
  CHECK(y == expected);

  const Tensor dy_NI = tensor(dy, {kRows, kIn}), w_OI = tensor(w, {kOut, kIn});
  linear_activation_bwd_input(Activation::kGeluTanh, dy_NI, w_OI, pre_NO,
                              tensor(dpre, {kRows, kOut}), stream);
  linear_bwd_input(dy_NI, w_OI, expected_NO, stream);
  activation_bwd(Activation::kGeluTanh, pre_NO, expected_NO, expected_NO, stream);
  CHECK(dpre == expected);
}

// Whether the emulated device computes an epilogue with the product or apart follows from whether
// the number of the sums' terms is odd (tests/emulation/cublas.cpp).
TEST_CASE("CUDA: a linear layer equals the CPU's", "[linear]") {
  for (const DType type : kTypes)
    for (const std::int64_t rows : {21, 22})
      for (const std::int64_t inputs : {34, 35})
        for (const std::int64_t outputs : {55, 64})
          compare(
              {normal({rows, inputs}, 1, 1, type), normal({inputs, outputs}, 2, 1, type),
               normal({outputs}, 3, 1, type), normal({rows, outputs}, 4, 1, type),
               normal({rows, outputs}, 5, 1, type), normal({rows, inputs}, 6, 1, type),
               normal({inputs, outputs}, 7), normal({outputs}, 8)},
              [](const std::vector<Tensor>& x, Stream stream) {
                linear_fwd(x[0], x[1], x[2], x[3], stream);
                linear_bwd_input(x[4], x[1], x[5], stream);
                linear_bwd_weight(x[0], x[4], x[6], x[7], stream);
              },
              tolerance_of(type, 2e-5));
}

TEST_CASE("a linear layer that adds equals the two in sequence") {
  Floats x = random_floats(kRows * kIn, 1), w = random_floats(kIn * kOut, 2),
         bias = random_floats(kOut, 3), added = random_floats(kRows * kOut, 4), y(kRows * kOut),
         expected(kRows * kOut);
  ThreadPool pool(1);
  const Tensor x_NI = tensor(x, {kRows, kIn}), w_IO = tensor(w, {kIn, kOut}),
               bias_O = tensor(bias, {kOut}), expected_NO = tensor(expected, {kRows, kOut});
  linear_add_fwd(x_NI, w_IO, bias_O, tensor(added, {kRows, kOut}), tensor(y, {kRows, kOut}), pool);
  linear_fwd(x_NI, w_IO, bias_O, expected_NO, pool);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = added[i] + expected[i];
  CHECK(y == expected);
}

TEST_CASE("CUDA: a linear layer that adds equals the CPU's", "[linear]") {
  for (const DType type : kTypes)
    for (const std::int64_t inputs : {34, 35})  // with the product, and apart
      for (const std::int64_t outputs : {55, 64})
        compare(
            {normal({21, inputs}, 1, 1, type), normal({inputs, outputs}, 2, 1, type),
             normal({outputs}, 3, 1, type), normal({21, outputs}, 4, 1, type),
             normal({21, outputs}, 5, 1, type), normal({21, outputs}, 6, 1, type)},
            [](const std::vector<Tensor>& x, Stream stream) {
              linear_add_fwd(x[0], x[1], x[2], x[3], x[4], stream);
              linear_add_fwd(x[0], x[1], {}, x[4], x[5], stream);
            },
            tolerance_of(type, 2e-5));
}

TEST_CASE("CUDA: a linear layer with a transposed weight equals the CPU's", "[linear]") {
  for (const DType type : kTypes)
    for (const std::int64_t rows : {20, 21})
      compare(
          {normal({rows, 34}, 1, 1, type), normal({56, 34}, 2, 1, type), normal({56}, 3, 1, type),
           normal({rows, 56}, 4, 1, type), normal({56, 34}, 5), normal({56}, 6)},
          [](const std::vector<Tensor>& x, Stream stream) {
            linear_fwd(x[0], x[1].transposed(), x[2], x[3], stream);
            linear_bwd_weight(x[0], x[3], x[4].transposed(), x[5], stream);
          },
          tolerance_of(type, 2e-5));
}

TEST_CASE("CUDA: the gradient of a bias over many rows equals the CPU's", "[linear]") {
  for (const DType type : kTypes)
    for (const std::int64_t rows : {1500, 1501})
      for (const std::int64_t outputs : {3, 40})
        compare(
            {normal({rows, 2}, 1, 1, type), normal({rows, outputs}, 2, 1, type),
             normal({2, outputs}, 3), normal({outputs}, 4)},
            [](const std::vector<Tensor>& x, Stream stream) {
              linear_bwd_weight(x[0], x[1], x[2], x[3], stream);
            },
            1e-4);
}

}  // namespace linear_test
