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
  const std::int64_t count = GENERATE(1001, (3 << 20) + 5);  // large parts bypass the caches
  ThreadPool pool(2);
  std::vector<float> values(static_cast<std::size_t>(count) + 2, 1.0f);
  clear(Tensor(values.data() + 1, {count}), pool);
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

TEST_CASE("accumulate copies at first, then adds, unless it is asked not to") {
  ThreadPool pool(3);
  std::vector<float> from(1001, 3), to(1003, std::nanf(""));
  to.front() = to.back() = 7;
  const Tensor source(from.data(), {1001}), sums(to.data() + 1, {1001});
  const auto all_are = [&](float x) {
    return std::all_of(to.begin() + 1, to.end() - 1, [x](float y) { return x == y; });
  };
  std::int32_t halted = 0;
  accumulate(source, sums, true, pool, &halted);
  CHECK(all_are(3));
  accumulate(source, sums, false, pool);
  CHECK(all_are(6));
  halted = 1;
  accumulate(source, sums, false, pool, &halted);
  accumulate(source, sums, true, pool, &halted);
  CHECK(all_are(6));
  CHECK((to.front() == 7 && to.back() == 7));
  CHECK_THROWS_AS(accumulate(source, Tensor(to.data(), {1003}), true, pool), Error);
}

TEST_CASE("CUDA: accumulate copies at first, then adds", "[flat]") {
  const Operand from = normal({1003}, 1), to = normal({1003}, 2);
  const Operand zero = integers({1}, 1, 0),
                one = stored<std::int32_t>(std::vector{1}, {1}, DType::kI32);
  for (const bool first : {false, true})
    for (const Operand& unless : {zero, one})
      compare(
          {from, to, unless},
          [&](const std::vector<Tensor>& x, Stream stream) {
            accumulate(x[0], x[1], first, stream, x[2].data<std::int32_t>());
          },
          1e-30);
  compare(
      {from, to},
      [](const std::vector<Tensor>& x, Stream stream) {
        accumulate(x[0].slice(0, 1, 1000), x[1].slice(0, 2, 1001), false, stream);
      },
      1e-30);
}

TEST_CASE("CUDA: flat buffers are filled, cast and summed", "[flat]") {
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
  const SumArgs sum{data, count, sums + 1};
  check(ops.sum(&sum, queue.state()));
  double square = 0, plain = 0;
  for (const double v : x) {
    square += v * v;
    plain += v;
  }
  CHECK(std::abs(total.read().at<double>(1) - plain) < 1e-9 * square);

  const FillArgs fill{back, count - 2, 7, nullptr};
  check(ops.fill(&fill, queue.state()));
  CHECK(other.read().floats().front() == 7);
  CHECK(other.read().floats()[static_cast<std::size_t>(count) - 3] == 7);
  CHECK(other.read().floats()[static_cast<std::size_t>(count) - 2] != 7);
}

TEST_CASE("CUDA: the squares of a piece are summed at its number", "[flat]") {
  if (module_with_device() == nullptr) return;
  const CudaQueue queue(Device::cuda(0), *module_with_device());
  const std::int64_t count = 20'011;
  const Floats x = random_floats(count, 1);
  // Neither kind of buffer has the pieces in the place of the whole layout.
  const std::vector<FlatPiece> pieces = {{300, 300 + (1 << 14), 100, 3, 2, 0, 0},
                                         {17'200, 17'201, 17'000, 16'387, 0, 0, 0},
                                         {18'201, 20'211, 18'001, 18'000, 3, 0, 0}};
  const DeviceCopy values(queue, floats(x, {count})),
      out(queue, stored<double>(Doubles(5, 7.0), {5}, DType::kF64));
  const PiecesOnDevice on_device(queue, pieces);
  for (const bool sharded : {false, true}) {
    const SquaresOfPiecesArgs args{{values.tensor.raw(), DType::kF32, sharded},
                                   on_device.data(),
                                   std::ssize(pieces),
                                   out.tensor.data<double>()};
    check(queue.module().ops().squares_of_pieces(&args, queue.state()));
    for (const FlatPiece& piece : pieces) {
      double expected = 0;
      const std::int64_t first = sharded ? piece.in_shard : piece.local;
      for (std::int64_t i = first; i < first + piece.end - piece.begin; ++i)
        expected +=
            static_cast<double>(x[static_cast<std::size_t>(i)]) * x[static_cast<std::size_t>(i)];
      CHECK(out.read().at<double>(static_cast<std::size_t>(piece.number)) ==
            Approx(expected).epsilon(1e-12));
    }
    CHECK(out.read().at<double>(1) == 7);
    CHECK(out.read().at<double>(4) == 7);
  }
}
