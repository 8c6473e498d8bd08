#include "hgtrain/ops/gemm.h"

#include <array>
#include <cstring>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "on_device.h"

using namespace hgt;
using namespace on_device;

namespace {

Doubles product(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const Floats& a,
                const Floats& b, float beta, const Floats& c) {
  Doubles out(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l)
        sum += static_cast<double>(a[static_cast<std::size_t>(i * k + l)]) *
               static_cast<double>(b[static_cast<std::size_t>(l * n + j)]);
      const std::size_t at = static_cast<std::size_t>(i * n + j);
      out[at] = static_cast<double>(alpha) * sum +
                (beta == 0 ? 0.0 : static_cast<double>(beta) * static_cast<double>(c[at]));
    }
  return out;
}

}  // namespace

TEST_CASE("gemm multiplies odd shapes in every orientation") {
  for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{
           {1, 1, 1}, {1, 37, 5}, {33, 1, 7}, {17, 19, 23}, {65, 130, 31}}) {
    for (int orientation = 0; orientation < 8; ++orientation) {
      const bool ta = orientation & 1, tb = orientation & 2, tc = orientation & 4;
      Floats a = random_floats(m * k, 1), b = random_floats(k * n, 2), c = random_floats(m * n, 3);
      const Doubles expected = product(m, n, k, 0.5f, a, b, 2, c);
      if (ta) a = transposed(a, m, k);
      if (tb) b = transposed(b, k, n);
      if (tc) c = transposed(c, m, n);
      ThreadPool pool(3);
      gemm(0.5f, ta ? tensor(a, {k, m}).transposed() : tensor(a, {m, k}),
           tb ? tensor(b, {n, k}).transposed() : tensor(b, {k, n}), 2,
           tc ? tensor(c, {n, m}).transposed() : tensor(c, {m, n}), Stream(pool));
      INFO(m << "x" << n << "x" << k << ", orientation " << orientation);
      CHECK(error_of(tc ? transposed(c, n, m) : c, expected) < 1e-6);
    }
  }
}

TEST_CASE("gemm with beta 0 overwrites whatever is there") {
  Floats a{1, 2}, b{3, 4}, c{NAN};
  ThreadPool pool(1);
  gemm(1, tensor(a, {1, 2}), tensor(b, {2, 1}), 0, tensor(c, {1, 1}), Stream(pool));
  CHECK(c[0] == 11);
}

TEST_CASE("gemm works on columns of wider matrices and leaves the others alone") {
  Floats x = random_floats(5 * 12, 1), y(5 * 12, 7.0f);
  Floats w = random_floats(16, 2);
  ThreadPool pool(2);
  gemm(1, tensor(x, {5, 12}).slice(1, 4, 8), tensor(w, {4, 4}), 0,
       tensor(y, {5, 12}).slice(1, 8, 12), Stream(pool));
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(y[i * 12 + 7] == 7.0f);
    double expected = 0;
    for (std::size_t l = 0; l < 4; ++l)
      expected += static_cast<double>(x[i * 12 + 4 + l]) * static_cast<double>(w[l * 4]);
    CHECK(static_cast<double>(y[i * 12 + 8]) == Approx(expected).margin(1e-6));
  }
}

TEMPLATE_TEST_CASE("gemm on a deterministic pool has the same bits for any number of threads", "",
                   float, BFloat16, Half) {
  constexpr DType kType = std::is_same_v<TestType, float>      ? DType::kF32
                          : std::is_same_v<TestType, BFloat16> ? DType::kBF16
                                                               : DType::kF16;
  // The first is computed by our kernel, the others by oneDNN if it has the type.
  for (const auto& [m, n, k] :
       std::vector<std::array<std::int64_t, 3>>{{500, 330, 450}, {7, 129, 530}, {300, 97, 193}})
    for (const bool wide : {true, false}) {
      INFO(m << "x" << n << "x" << k << (wide ? " to fp32" : ""));
      const Floats left = random_floats(m * k, 1), right = random_floats(k * n, 2);
      std::vector<TestType> a(left.begin(), left.end()), b(right.begin(), right.end());
      const auto product = [&, m = m, n = n, k = k](int threads) {
        ThreadPool pool(threads, true);
        Floats c(static_cast<std::size_t>(m * n));  // has room for narrow elements, too
        gemm(1, Tensor(a.data(), {m, k}, kType), Tensor(b.data(), {k, n}, kType), 0,
             Tensor(c.data(), {m, n}, wide ? DType::kF32 : kType), Stream(pool));
        return c;
      };
      const Floats one = product(1);
      for (const int threads : {2, 3, 7})
        CHECK((std::memcmp(product(threads).data(), one.data(), one.size() * sizeof(float)) == 0));
    }
}

TEST_CASE("without timing, our kernel computes large products whose c is fp32") {
  const auto kernel = [](DType type, DType of_c, std::int64_t m, std::int64_t n, std::int64_t k) {
    Floats a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n)),
        c(static_cast<std::size_t>(m * n));
    ThreadPool pool(1, true);
    return cpu_product_kernel(Tensor(a.data(), {m, k}, type), Tensor(b.data(), {k, n}, type), 0,
                              Tensor(c.data(), {m, n}, of_c), pool);
  };
  CHECK(kernel(DType::kF32, DType::kF32, 500, 330, 450) == "own");
  CHECK(kernel(DType::kF32, DType::kF32, 63, 1000, 1000) == "oneDNN");
  CHECK(kernel(DType::kF32, DType::kF32, 64, 64, 64) == "oneDNN");
  const bool has_bf16 = cpu_multiplies(DType::kBF16);
  CHECK(kernel(DType::kBF16, DType::kBF16, 500, 330, 450) == (has_bf16 ? "oneDNN" : "own"));
  CHECK(kernel(DType::kBF16, DType::kF32, 63, 1000, 1000) == (has_bf16 ? "oneDNN" : "own"));
  CHECK(kernel(DType::kBF16, DType::kF32, 500, 330, 450) ==
        (has_bf16 && !cpu_multiplies(DType::kF16) ? "oneDNN" : "own"));  // with AMX, it has fp16
}

TEST_CASE("gemm refuses operands that do not fit") {
  Floats x(12);
  ThreadPool pool(1);
  const Tensor a = tensor(x, {3, 4});
  CHECK_THROWS_AS(gemm(1, a, a, 0, a, Stream(pool)), Error);
  CHECK_THROWS_AS(gemm(1, a, a.transposed(), 0, a, Stream(pool)), Error);
  CHECK_THROWS_AS(gemm(1, tensor(x, {12}), a, 0, a, Stream(pool)), Error);
  CHECK_THROWS_AS(gemm(1, a.slice(1, 0, 0), a.slice(0, 0, 0), 0, a, Stream(pool)), Error);
}

TEST_CASE("CUDA: matrix products in every orientation equal the CPU's", "[gemm]") {
  for (int flips = 0; flips < 8; ++flips) {
    const bool a = flips & 1, b = flips & 2, c = flips & 4;
    const auto flipped = [](const Shape& shape, bool flip) {
      return flip ? Shape{shape[1], shape[0]} : shape;
    };
    const Shape mk = flipped({33, 70}, a), kn = flipped({70, 19}, b), mn = flipped({33, 19}, c);
    const auto product = [=](float alpha, float beta) {
      return [=](const std::vector<Tensor>& x, Stream stream) {
        gemm(alpha, a ? x[0].transposed() : x[0], b ? x[1].transposed() : x[1], beta,
             c ? x[2].transposed() : x[2], stream);
      };
    };
    compare({normal(mk, 1), normal(kn, 2), normal(mn, 3)}, product(0.5f, 2));
    for (const DType type : {DType::kBF16, DType::kF16}) {
      const Operand x = normal(mk, 1, 1, type), y = normal(kn, 2, 1, type);
      compare({x, y, normal(mn, 3, 1, type)}, product(1, 0), tolerance_of(type, 0));
      compare({x, y, normal(mn, 3)}, product(1, 0));  // products of 16-bit numbers are exact
      compare({x, y, normal(mn, 3)}, product(1, 1));
    }
  }
}
