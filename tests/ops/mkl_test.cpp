#include "cpu/mkl.h"

#include <catch2/catch.hpp>

#include "reference.h"

using namespace hgt;

// These cases run with a library in place of MKL, or with MKL itself, if it is installed.
namespace mkl_test {

using namespace hgt::cpu;

TEST_CASE("MKL multiplies operands however they are stored, and adds", "[mkl]") {
  REQUIRE(has_mkl());
  CHECK(!mkl_version().empty());
  constexpr std::int64_t m = 37, n = 51, k = 23, gap = 3;
  const Floats a = random_floats(m * k, 1), b = random_floats(k * n, 2),
               before = random_floats(m * (n + gap), 3);
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const bool add : {false, true}) {
        const Floats left = transpose_a ? transposed(a, m, k) : a,
                     right = transpose_b ? transposed(b, k, n) : b;
        Floats c = before;
        Doubles expected = doubles(before);
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t j = 0; j < n; ++j) {
            double& out = expected[static_cast<std::size_t>(i * (n + gap) + j)];
            if (!add) out = 0;
            for (std::int64_t l = 0; l < k; ++l)
              out += double{a[static_cast<std::size_t>(i * k + l)]} *
                     double{b[static_cast<std::size_t>(l * n + j)]};
          }
        mkl_product({transpose_a, transpose_b, m, n, k, left.data(), transpose_a ? m : k,
                     right.data(), transpose_b ? k : n, add, c.data(), n + gap, true});
        CHECK(error_of(c, expected) < 1e-6);
      }
}

}  // namespace mkl_test
