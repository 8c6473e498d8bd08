#include "cpu/packed_product.h"

#include <catch2/catch.hpp>

#include "own_product.h"

namespace own_product {

TEST_CASE("our own products are right in every orientation, and do not depend on the cells") {
  for_each_case([](const Case& s) {
    check<float, float>(kPackedKernels.f32, s, false);
    check<float, float>(kPackedKernels.f32, s, true);
    check<BFloat16, float>(kPackedKernels.bf16, s, true);
    check<BFloat16, BFloat16>(kPackedKernels.bf16, s, false);
    check<Half, Half>(kPackedKernels.f16, s, false);
  });
}

TEST_CASE("our own product of no depth is 0") {
  Floats c{7, 7};
  run(kPackedKernels.f32,
      {false, false, 1, 2, 0, nullptr, 1, nullptr, 2, false, c.data(), 2, true});
  CHECK(c == Floats{0, 0});
}

}  // namespace own_product
