#include "hgtrain/ops/activation.h"

#include <limits>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/ops/linear.h"

#include "on_device.h"

using namespace hgt;
using namespace on_device;

namespace {

using Formula = double (*)(double);

/// Null beyond the last function.
Formula formula_of(Activation f) {
  switch (f) {
    case Activation::kGeluTanh:
      return [](double x) {
        return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
      };
    case Activation::kGelu:
      return [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); };
    case Activation::kRelu:
      return [](double x) { return std::max(x, 0.0); };
    case Activation::kSilu:
      return [](double x) { return x / (1 + std::exp(-x)); };
  }
  return nullptr;
}

const std::vector<Activation> kAll = [] {
  std::vector<Activation> all;
  for (int i = 0; formula_of(static_cast<Activation>(i)); ++i)
    all.push_back(static_cast<Activation>(i));
  return all;
}();

double value(Activation f, double x) {
  return formula_of(f)(x);
}

double slope(Activation f, double x) {
  return (value(f, x + 1e-6) - value(f, x - 1e-6)) / 2e-6;
}

Floats applied(Activation f, Floats x) {
  ThreadPool pool(2);
  const std::int64_t n = static_cast<std::int64_t>(x.size());
  activation_fwd(f, tensor(x, {n}), tensor(x, {n}), Stream(pool));
  return x;
}

}  // namespace

TEST_CASE("activations are accurate to a few units in the last place") {
  Floats x;
  for (int i = -4000; i <= 4001; ++i) x.push_back(static_cast<float>(i) * 0.00237f);
  for (const Activation f : kAll) {
    const Floats y = applied(f, x);
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = value(f, static_cast<double>(x[i]));
      worst = std::max(
          worst, std::abs(static_cast<double>(y[i]) - exact) / std::max(std::abs(exact), 1e-3));
    }
    INFO("activation " << static_cast<int>(f));
    CHECK(worst < 1e-6);
  }
}

TEST_CASE("activations hold at the ends of the range") {
  const Floats x = {0.0f, -200.0f, 200.0f, 1e30f, std::numeric_limits<float>::infinity()};
  for (const Activation f : kAll) {
    const Floats y = applied(f, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      INFO("activation " << static_cast<int>(f) << " of " << x[i]);
      const float exact = static_cast<float>(value(f, static_cast<double>(x[i])));
      CHECK((y[i] == exact || std::abs(y[i] - exact) < 1e-30f));
    }
    CHECK(std::isnan(applied(f, {NAN})[0]));
  }
}

TEST_CASE("activations' backward is the slope") {
  const Floats x = random_floats(77, 1, 2);
  const Floats dy = random_floats(77, 2);
  for (const Activation f : kAll) {
    Floats in = x, dx = dy;
    ThreadPool pool(2);
    activation_bwd(f, tensor(in, {77}), tensor(dx, {77}), tensor(dx, {77}), Stream(pool));
    Doubles expected;
    for (std::size_t i = 0; i < x.size(); ++i)
      expected.push_back(static_cast<double>(dy[i]) * slope(f, static_cast<double>(x[i])));
    INFO("activation " << static_cast<int>(f));
    CHECK(error_of(dx, expected) < 1e-6);
  }
}

TEST_CASE("gated activations, forward and backward") {
  constexpr std::int64_t kRows = 3, kWidth = 11;
  const auto reference = [](Activation f, const Doubles& gate_up) {
    Doubles y;
    for (std::size_t n = 0; n < kRows; ++n)
      for (std::size_t i = 0; i < kWidth; ++i)
        y.push_back(value(f, gate_up[n * 2 * kWidth + i]) * gate_up[n * 2 * kWidth + kWidth + i]);
    return y;
  };
  for (const Activation f : kAll) {
    INFO("activation " << static_cast<int>(f));
    Floats gate_up = random_floats(kRows * 2 * kWidth, 1), y(kRows * kWidth);
    Floats dy = random_floats(kRows * kWidth, 2);
    const Doubles inputs = doubles(gate_up);
    ThreadPool pool(2);
    const Tensor in = tensor(gate_up, {kRows, 2 * kWidth});
    gated_activation_fwd(f, in, tensor(y, {kRows, kWidth}), Stream(pool));
    CHECK(error_of(y, reference(f, inputs)) < 1e-6);
    gated_activation_bwd(f, in, tensor(dy, {kRows, kWidth}), in, Stream(pool));
    CHECK(error_of(gate_up, numeric_gradient([&](const Doubles& v) { return reference(f, v); },
                                             inputs, dy)) < 1e-6);
  }
}

TEST_CASE("activations refuse shapes that do not fit") {
  Floats x(12);
  ThreadPool pool(1);
  CHECK_THROWS_AS(activation_fwd(Activation::kRelu, tensor(x, {12}), tensor(x, {11}), Stream(pool)),
                  Error);
  CHECK_THROWS_AS(
      gated_activation_fwd(Activation::kSilu, tensor(x, {2, 6}), tensor(x, {2, 4}), Stream(pool)),
      Error);
}

TEST_CASE("CUDA: a linear layer with an activation equals the CPU's", "[activation]") {
  for (const DType type : kTypes)
    for (const auto f : {Activation::kGeluTanh, Activation::kGelu})
      for (const std::int64_t inputs : {34, 35})
        for (const std::int64_t outputs : {55, 64})
          for (const bool bias : {false, true})
            compare(
                {normal({22, inputs}, 1, 1, type), normal({inputs, outputs}, 2, 0.2f, type),
                 normal({outputs}, 3, 1, type), normal({22, outputs}, 4, 1, type),
                 normal({22, outputs}, 5, 1, type), normal({22, inputs}, 6, 1, type),
                 normal({outputs, inputs}, 7, 0.2f, type), normal({22, outputs}, 8, 1, type)},
                [=](const std::vector<Tensor>& x, Stream stream) {
                  linear_activation_fwd(f, x[0], x[1], bias ? x[2] : Tensor(), x[3], x[4], stream);
                  linear_activation_bwd_input(f, x[5], x[6], x[3], x[7], stream);
                },
                tolerance_of(type, 2e-5));
}

TEST_CASE("CUDA: activations equal the CPU's", "[activation]") {
  for (const DType type : kTypes)
    for (const Activation f : kAll)
      for (const std::int64_t width : {101, 64})
        compare(
            {normal({7, 2 * width}, 1, 3, type), normal({7, 2 * width}, 2, 1, type),
             normal({7, width}, 3, 1, type), normal({7, 2 * width}, 4, 1, type),
             normal({7, 2 * width}, 5, 1, type), normal({7, width}, 6, 1, type)},
            [=](const std::vector<Tensor>& x, Stream stream) {
              activation_fwd(f, x[0], x[1], stream);
              activation_bwd(f, x[0], x[3], x[4], stream);
              gated_activation_fwd(f, x[0], x[2], stream);
              gated_activation_bwd(f, x[0], x[5], x[0], stream);
            },
            tolerance_of(type, 2e-5));
}
