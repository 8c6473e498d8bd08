#include "hgtrain/optim/round.h"

#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/half.h"
#include "hgtrain/device/thread_pool.h"

using namespace hgt;

namespace {

template <class T>
void check_rounding(DType dtype) {
  std::vector<float> values(200001);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1.0f / static_cast<float>(i + 3);
  std::vector<T> out(values.size());
  ThreadPool pool(2);
  round_to(Tensor(values.data(), {std::ssize(values)}),
           Tensor(out.data(), {std::ssize(out)}, dtype), pool);
  for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(out[i].bits == T(values[i]).bits);
}

}  // namespace

TEST_CASE("masters are rounded to the weights' type") {
  check_rounding<BFloat16>(DType::kBF16);
  check_rounding<Half>(DType::kF16);
}
