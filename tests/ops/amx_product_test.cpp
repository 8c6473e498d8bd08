#include <catch2/catch.hpp>

#include "own_product.h"

namespace own_product {

// Of CPUs without AMX, this tests packed_product.cpp once more.
TEST_CASE("this CPU's own product of bf16 is right in every orientation, whatever the cells") {
  void (*const kernel)(const Product<BFloat16>&, float*) = packed_product;
  for_each_case([&](const Case& s) {
    check<BFloat16, float>(kernel, s, false);
    check<BFloat16, float>(kernel, s, true);
    check<BFloat16, BFloat16>(kernel, s, false);
  });
  Floats c{7, 7};
  run(kernel, {false, false, 1, 2, 0, nullptr, 1, nullptr, 2, false, c.data(), 2, true});
  CHECK(c == Floats{0, 0});
}

}  // namespace own_product
