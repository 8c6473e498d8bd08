#include "hgtrain/train/machine_rates.h"

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("a machine has a rate of products in every type, and of copies") {
  ThreadPool pool(2);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    CHECK(measure_matrix_rate(pool, dtype, 0) > 1e6);
  CHECK(measure_copy_rate(pool) > 1e6);
}
