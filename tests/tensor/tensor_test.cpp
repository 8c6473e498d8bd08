#include "hgtrain/tensor/tensor.h"

#include <numeric>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

namespace {

struct Numbers {
  std::vector<float> values = std::vector<float>(24);
  Numbers() { std::iota(values.begin(), values.end(), 0.0f); }
  Tensor view(std::initializer_list<std::int64_t> shape) { return Tensor(values.data(), shape); }
};

float at(const Tensor& x, std::initializer_list<std::int64_t> index) {
  std::int64_t offset = 0;
  int dim = 0;
  for (const std::int64_t i : index) offset += i * x.stride(dim++);
  return x.data<float>()[offset];
}

}  // namespace

TEST_CASE("a tensor knows its sizes and strides") {
  Numbers n;
  const Tensor x = n.view({2, 3, 4});
  CHECK(x.rank() == 3);
  CHECK(x.numel() == 24);
  CHECK(x.size(-1) == 4);
  CHECK(x.stride(0) == 12);
  CHECK(x.contiguous());
  CHECK(at(x, {1, 2, 3}) == 23);
  CHECK(x.raw() == n.values.data());
  CHECK(!Tensor());
  CHECK(Tensor().raw() == nullptr);
  CHECK(x);
}

TEST_CASE("slices, transposes and splits are views") {
  Numbers n;
  const Tensor columns = n.view({4, 6}).slice(1, 2, 6);
  CHECK(!columns.contiguous());
  CHECK(at(columns, {1, 0}) == 8);
  CHECK(at(columns.transposed(), {0, 1}) == 8);
  const Tensor heads = columns.split(1, 2).split(0, 2);  // [2, 2, 2, 2]
  CHECK(heads.rank() == 4);
  CHECK(at(heads, {1, 0, 1, 1}) == 17);
  CHECK(n.view({4, 6}).slice(0, 1, 3).contiguous());
  CHECK(at(n.view({24}).reshaped({2, 12}), {1, 1}) == 13);
}

TEST_CASE("a shape that does not fit is an internal error") {
  Numbers n;
  const Tensor x = n.view({4, 6});
  CHECK_THROWS_AS(x.slice(0, 2, 5), Error);
  CHECK_THROWS_AS(x.slice(2, 0, 1), Error);
  CHECK_THROWS_AS(x.split(1, 4), Error);
  CHECK_THROWS_AS(x.slice(1, 0, 3).reshaped({12}), Error);
  CHECK_THROWS_AS(x.reshaped({5, 5}), Error);
  CHECK_THROWS_AS(x.data<double>(), Error);
  CHECK_THROWS_AS(x.data<std::int32_t>(), Error);
  CHECK_THROWS_AS(n.view({1, 1, 1, 1, 1, 24}), Error);
  CHECK_THROWS_AS(n.view({-1}), Error);
}
