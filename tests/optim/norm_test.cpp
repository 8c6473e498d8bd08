#include "hgtrain/optim/norm.h"

#include <limits>

#include <catch2/catch.hpp>

#include "sharded_runs.h"

using namespace hgt;

namespace {

/// The squares of the pieces of one tensor.
std::vector<double> squares_of(std::vector<float>& values, int threads) {
  const ParameterTable table = table_of({std::ssize(values)}, 1);
  values.resize(static_cast<std::size_t>(table.total));
  ThreadPool pool(threads);
  const Pieces pieces(tensor_pieces(table), std::array{Slice{{0, table.total}}}, pool);
  std::vector<double> out(static_cast<std::size_t>(pieces.total()), -1);
  squares_of_pieces({flat_tensor(values)}, pieces,
                    Tensor(out.data(), {pieces.total()}, DType::kF64), pool);
  return out;
}

}  // namespace

TEST_CASE("sums of squares are exact to fp64 and the same for any number of threads") {
  std::vector<float> values(300'001);
  double expected = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i)) * 1e18f;
    expected += static_cast<double>(values[i]) * values[i];
  }
  const std::vector<double> squares = squares_of(values, 1);
  CHECK(squares.size() == 19);
  double sum = 0;
  for (const double x : squares) sum += x;
  CHECK(sum == Approx(expected).epsilon(1e-12));
  CHECK(squares_of(values, 3) == squares);
}

TEST_CASE("one element that is not finite shows in the squares of its piece") {
  std::vector<float> values(40'000, 1.0f);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    values[20'000] = bad;
    const std::vector<double> squares = squares_of(values, 1);
    CHECK(std::isfinite(squares[0]));
    CHECK_FALSE(std::isfinite(squares[1]));
  }
}

TEST_CASE("any number of ranks finds the same squares") {
  ThreadPool pool(2);
  check_sharded_norm(pool);
}
