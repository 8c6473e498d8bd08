#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "own_product.h"

namespace own_product {

// Of CPUs without AMX, these test packed_product.cpp once more.
TEST_CASE("this CPU's own products are right in every orientation, whatever the cells") {
  for_each_case([](const Case& s) {
    for (const bool add : {false, true}) {
      check<float, float>(packed_product, s, add);
      check<BFloat16, float>(packed_product, s, add);
      check<Half, float>(packed_product, s, add);
    }
    check<BFloat16, BFloat16>(packed_product, s, false);
    check<Half, Half>(packed_product, s, false);
  });
}

TEMPLATE_TEST_CASE("this CPU's own product of no depth is 0", "", float, BFloat16, Half) {
  Floats c{7, 7};
  run<TestType>(packed_product,
                {false, false, 1, 2, 0, nullptr, 1, nullptr, 2, false, c.data(), 2, true});
  CHECK(c == Floats{0, 0});
}

TEST_CASE("this CPU's own product of fp32 is as exact as fp32, of numbers from 2^-30 to 2^30") {
  constexpr std::int64_t n = 40, k = 500;
  Floats a = random_floats(n * k, 1), b = random_floats(k * n, 2), c(n * n);
  for (std::int64_t i = 0; i < n * k; ++i) {
    a[static_cast<std::size_t>(i)] *= std::ldexp(1.0f, static_cast<int>(i * 7 % 61) - 30);
    b[static_cast<std::size_t>(i)] *= std::ldexp(1.0f, static_cast<int>(i * 11 % 61) - 30);
  }
  run<float>(packed_product,
             {false, false, n, n, k, a.data(), k, b.data(), n, false, c.data(), n, true});
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0, magnitude = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        const double term = static_cast<double>(a[static_cast<std::size_t>(i * k + l)]) *
                            static_cast<double>(b[static_cast<std::size_t>(l * n + j)]);
        sum += term;
        magnitude += std::abs(term);
      }
      const double error =
          std::abs(static_cast<double>(c[static_cast<std::size_t>(i * n + j)]) - sum);
      REQUIRE(error < 0x1p-20 * magnitude);
    }
}

TEST_CASE("this CPU's own product takes the smallest numbers for 0 at worst") {
  Floats a(32, 1.0f), b(32, 1.0f), c(1);
  a[20] = 0x1.00000ep-114f;  // the third of its parts is denormal
  run<float>(packed_product,
             {false, false, 1, 1, 32, a.data(), 32, b.data(), 1, false, c.data(), 1, true});
  CHECK(c.front() == 31);
}

TEMPLATE_TEST_CASE("an infinity or a NaN in an operand of this CPU's own product shows in its row",
                   "", float, Half) {
  constexpr std::int64_t n = 5;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {kInfinity, -kInfinity, std::nanf(""), -std::nanf("0x3fffff")})
    for (const bool left : {false, true}) {
      std::vector<TestType> a(n * n, TestType(1.5f)), b(n * n, TestType(0.75f)), c(n * n);
      (left ? a : b)[2 * n + 2] = bad;
      run<TestType>(packed_product, {false, false, n, n, n, a.data(), n, b.data(), n, false,
                                     c.data(), n, std::is_same_v<TestType, float>});
      for (std::int64_t i = 0; i < n * n; ++i)
        CHECK(std::isfinite(static_cast<float>(c[static_cast<std::size_t>(i)])) ==
              ((left ? i / n : i % n) != 2));
    }
}

}  // namespace own_product
