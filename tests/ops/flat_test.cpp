#include "hgtrain/ops/flat.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/device/thread_pool.h"
#include "hgtrain/ops/cuda_ops_table.h"

#include "on_device.h"

using namespace hgt;
using namespace on_device;

TEST_CASE("clear leaves zeros, and nothing else changed") {
  ThreadPool pool(3);
  std::vector<float> values(1003, 1.0f);
  clear(Tensor(values.data() + 1, {1001}), pool);
  CHECK(values.front() == 1);
  CHECK(values.back() == 1);
  CHECK(std::all_of(values.begin() + 1, values.end() - 1, [](float x) { return x == 0; }));
}

TEST_CASE("sum adds in fp64") {
  ThreadPool pool(2);
  std::vector<float> values(1001, 1.0f);
  values[0] = 1e9f;
  double total = -1;
  const Tensor out(&total, {1}, DType::kF64);
  sum(Tensor(values.data(), {1001}), out, pool);
  CHECK(total == 1e9 + 1000);
  sum(Tensor(values.data(), {0}), out, pool);
  CHECK(total == 0);
  CHECK_THROWS_AS(sum(Tensor(values.data(), {3}), Tensor(values.data(), {1}), pool), Error);
}

namespace {

double squares_of(std::vector<float>& values, int threads) {
  ThreadPool pool(threads);
  double out = -1;
  sum_of_squares(Tensor(values.data(), {std::ssize(values)}), Tensor(&out, {1}, DType::kF64), pool);
  return out;
}

}  // namespace

TEST_CASE("a sum of squares is exact to fp64 and the same for any number of threads") {
  std::vector<float> values(300'001), none;
  double squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i)) * 1e18f;
    squares += static_cast<double>(values[i]) * values[i];
  }
  const double sum = squares_of(values, 1);
  CHECK(sum == Approx(squares).epsilon(1e-12));
  CHECK(squares_of(values, 3) == sum);
  CHECK(squares_of(none, 1) == 0);
}

TEST_CASE("one element that is not finite shows in the sum of squares") {
  std::vector<float> values(1000, 1.0f);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    values[777] = bad;
    CHECK_FALSE(std::isfinite(squares_of(values, 1)));
  }
}

TEST_CASE("CUDA: fills, casts and sums over flat buffers", "[flat]") {
  if (module_with_device() == nullptr) return;
  const CudaQueue queue(Device::cuda(0), *module_with_device());
  const CudaOpsTable& ops = queue.module().ops();
  const std::int64_t count = 40001;
  const Floats x = random_floats(count, 1);
  const DeviceCopy values(queue, floats(x, {count})), other(queue, floats(x, {count})),
      total(queue, stored<double>(Doubles(2), {2}, DType::kF64));
  float* const data = values.tensor.data<float>();
  float* const back = other.tensor.data<float>();

  for (const DType type : {DType::kBF16, DType::kF16}) {
    const Operand rounded = floats(x, {count}, type);
    const DeviceCopy half(queue, rounded);
    void* const narrow = half.tensor.data<std::uint16_t>();
    const CastArgs there{data, narrow, DType::kF32, type, count};
    const CastArgs and_back{narrow, back, type, DType::kF32, count};
    check(ops.cast(&there, queue.state()));
    check(ops.cast(&and_back, queue.state()));
    CHECK(half.read().bytes == rounded.bytes);
    CHECK(other.read().floats() == rounded.floats());
  }

  double* const sums = total.tensor.data<double>();
  const SumOfSquaresArgs squares{data, count, sums};
  const SumArgs sum{data, count, sums + 1};
  check(ops.sum_of_squares(&squares, queue.state()));
  check(ops.sum(&sum, queue.state()));
  double square = 0, plain = 0;
  for (const double v : x) {
    square += v * v;
    plain += v;
  }
  CHECK(std::abs(total.read().at<double>(0) - square) < 1e-9 * square);
  CHECK(std::abs(total.read().at<double>(1) - plain) < 1e-9 * square);

  const FillArgs fill{back, count - 2, 7, nullptr};
  check(ops.fill(&fill, queue.state()));
  CHECK(other.read().floats().front() == 7);
  CHECK(other.read().floats()[static_cast<std::size_t>(count) - 3] == 7);
  CHECK(other.read().floats()[static_cast<std::size_t>(count) - 2] != 7);
}
