#include "hgtrain/ops/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "on_device.h"

using namespace hgt;
using namespace on_device;

namespace sample_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Draw {
  float temperature = 1;
  std::int64_t top_k = 0;
  double top_p = 1, uniform = 0;
};

std::int32_t drawn(const Draw& draw, Operand logits) {
  ThreadPool pool(1);
  std::int32_t token = -2;
  sample(logits.on_cpu(), draw.temperature, draw.top_k, draw.top_p, draw.uniform,
         Tensor(&token, {1}, DType::kI32), pool);
  return token;
}

Operand row(const Floats& values, DType dtype = DType::kF32) {
  return floats(values, {static_cast<std::int64_t>(values.size())}, dtype);
}
std::int32_t drawn(const Draw& draw, const Floats& logits) {
  return drawn(draw, row(logits));
}

/// The kept tokens in order, and each one's begin in the distribution function; 1 at the end.
struct Expected {
  std::vector<std::size_t> tokens;
  Doubles begins{0};

  Expected(const Draw& draw, const Floats& logits) {
    for (std::size_t i = 0; i < logits.size(); ++i) tokens.push_back(i);
    std::stable_sort(tokens.begin(), tokens.end(),
                     [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
    const auto k = static_cast<std::size_t>(draw.top_k);
    if (k > 0 && k < tokens.size()) {
      const float smallest = logits[tokens[k - 1]];
      std::erase_if(tokens, [&](std::size_t i) { return logits[i] < smallest; });
    }
    Doubles masses;
    double total = 0, kept = 0;
    for (const std::size_t i : tokens)
      total += masses.emplace_back(
          std::exp((double{logits[i]} - logits[tokens.front()]) / draw.temperature));
    while (begins.size() == 1 || (begins.size() <= tokens.size() && kept < draw.top_p * total))
      begins.push_back(kept += masses[begins.size() - 1]);
    tokens.resize(begins.size() - 1);
    for (double& begin : begins) begin /= kept;
  }

  /// Whether the number falls on the token, within rounding.
  bool falls_on(double uniform, std::int32_t token) const {
    const auto at = static_cast<std::size_t>(
        std::find(tokens.begin(), tokens.end(), static_cast<std::size_t>(token)) - tokens.begin());
    return at < tokens.size() && begins[at] < uniform + 1e-5 && uniform - 1e-5 < begins[at + 1];
  }
};

/// Calls fn(draw, logits) for many rows: with and without ties, of sizes around a device's steps.
template <class Fn>
void for_rows(const std::vector<std::int64_t>& sizes, const Fn& fn) {
  std::uint64_t seed = 0;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (const std::int64_t size : sizes)
      for (const float scale : {0.1f, 3.0f, 300.0f})
        for (const Draw& draw :
             {Draw{}, Draw{.temperature = 0.3f}, Draw{.temperature = 30}, Draw{.temperature = 0},
              Draw{.top_k = 1}, Draw{.top_k = 5}, Draw{.top_k = size}, Draw{.top_k = size + 1},
              Draw{.top_p = 0.9}, Draw{.top_p = 0.3}, Draw{.top_p = 1e-9},
              Draw{.temperature = 2, .top_k = 40, .top_p = 0.8}}) {
          Floats logits = random_floats(size, ++seed, scale);
          if (seed % 3 == 0)
            for (float& x : logits) x = std::round(x);
          if (seed % 5 == 0) logits[seed % logits.size()] = -kInf;
          if (*std::max_element(logits.begin(), logits.end()) == -kInf) continue;
          Draw drawing = draw;
          drawing.uniform = uniform01(philox(seed, 1, 0)[0]);
          CAPTURE(name_of(dtype), size, scale, draw.temperature, draw.top_k, draw.top_p, seed);
          fn(drawing, row(logits, dtype));
        }
}

}  // namespace

TEST_CASE("tokens are drawn as by sorting in double") {
  for_rows({1, 2, 33, 1001}, [](const Draw& draw, const Operand& logits) {
    Draw expected = draw;
    if (draw.temperature == 0) expected = {.top_k = 0, .top_p = 1e-9};
    CHECK(Expected(expected, logits.floats())
              .falls_on(draw.temperature == 0 ? 0.5 : draw.uniform, drawn(draw, logits)));
  });
}

TEST_CASE("the likeliest token comes first, of equals the lowest id") {
  CHECK(drawn({.temperature = 0}, {1, 5, 5, -3}) == 1);
  CHECK(drawn({.temperature = 0}, {-1, -0.0f, 0.0f}) == 1);
  CHECK(drawn({.temperature = 0}, {-kInf, -3e38f}) == 1);
  CHECK(drawn({.uniform = 0}, {1, 5, 5, -3}) == 1);
  CHECK(drawn({.top_p = 1e-300, .uniform = 0.9999}, {1, 5, 5, -3}) == 1);
  CHECK(drawn({.uniform = 0x1.fffffffffffffp-1}, {1, 5, 5, -3}) == 3);
  CHECK(drawn({.temperature = 1e-38f, .uniform = 0.999}, {1e30f, 2e30f, -3e38f}) == 1);
  CHECK(drawn({.temperature = 3e38f, .uniform = 0.4}, {-3e38f, 3e38f, -kInf}) == 1);
}

TEST_CASE("top_k keeps all tokens that tie, top_p only as many as it needs") {
  const Floats equal{2, 2, 2, 2, 1};
  for (const auto& [uniform, all, half] :
       {std::tuple{0.2499, 0, 0}, {0.25, 1, 0}, {0.4999, 1, 0}, {0.5, 2, 1}, {0.9999, 3, 1}}) {
    CHECK(drawn({.top_k = 2, .uniform = uniform}, equal) == all);
    CHECK(drawn({.top_k = 1, .top_p = 0.5, .uniform = uniform}, equal) == half);
  }
}

TEST_CASE("the sums of a large vocabulary are exact") {
  const Floats equal(300000, -7);
  CHECK(drawn({.uniform = 0.5}, equal) == 150000);
  CHECK(drawn({.uniform = 0x1.fffffffffffffp-1}, equal) == 299999);
  CHECK(drawn({.top_p = 0.25, .uniform = 0x1.fffffffffffffp-1}, equal) == 74999);
}

TEST_CASE("if no token can be drawn, the result is -1") {
  for (const float temperature : {0.0f, 1.0f})
    for (const float bad : {kInf, std::nanf(""), -std::nanf("")})
      for (const std::size_t at : {0, 2}) {
        Floats logits{1, 2, 3};
        logits[at] = bad;
        CHECK(drawn({.temperature = temperature}, logits) == -1);
      }
  CHECK(drawn({}, {-kInf, -kInf}) == -1);
  CHECK(drawn({}, {-kInf, 7, -kInf}) == 1);
}

TEST_CASE("arguments that sample does not support are refused") {
  for (const Draw& bad :
       {Draw{.temperature = -1}, Draw{.temperature = std::nanf("")}, Draw{.top_k = -1},
        Draw{.top_p = 0}, Draw{.top_p = 1.5}, Draw{.uniform = 1}, Draw{.uniform = -0.1}})
    CHECK_THROWS_AS(drawn(bad, {1, 2}), Error);
  CHECK_THROWS_AS(drawn({}, Floats()), Error);
}

TEST_CASE("CUDA: the token drawn is the CPU's", "[sample]") {
  if (module_with_device() == nullptr) return;
  const CudaQueue queue(Device::cuda(0), *module_with_device());
  const auto on_device = [&](const Draw& draw, const Operand& logits) {
    return run_on_device(queue, {logits, stored<std::int32_t>(std::vector{-2}, {1}, DType::kI32)},
                         [&](const std::vector<Tensor>& x, Stream stream) {
                           sample(x[0], draw.temperature, draw.top_k, draw.top_p, draw.uniform,
                                  x[1], stream);
                         })[1]
        .at<std::int32_t>(0);
  };
  for_rows({1, 33, 9001}, [&](const Draw& draw, const Operand& logits) {
    CHECK(on_device(draw, logits) == drawn(draw, logits));
  });
  for (const Floats& logits :
       {Floats{-kInf, -kInf}, Floats{1, kInf, 2}, Floats{1, std::nanf(""), 2}, Floats{5}})
    CHECK(on_device({}, row(logits)) == drawn({}, logits));
}

}  // namespace sample_test
