#include "hgtrain/optim/ema.h"

#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "sharded_runs.h"

using namespace hgt;

TEST_CASE(
    "an average moves its share of the way, whatever the threads; none stays none, a skipped one "
    "too") {
  std::vector<float> values(100'032), first(values.size(), 2), second = first;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  ThreadPool one(1), three(3);
  const auto flat = [](std::vector<float>& x) {
    return FlatTensor{Tensor(x.data(), {std::ssize(x)})};
  };
  const ParameterTable table = table_of({std::ssize(values)}, 1);
  const Pieces pieces(tensor_pieces(table), std::array{Slice{{0, table.total}}}, one);
  Update update{};
  for (int step = 0; step < 3; ++step) {
    update_ema(0.9, flat(values), flat(first), pieces, &update, one);
    update_ema(0.9, flat(values), flat(second), pieces, &update, three);
  }
  CHECK(first == second);
  CHECK(first[5] == Approx(0.729 * 2 + 0.271 * values[5]));
  update_ema(0.9, flat(values), {}, pieces, &update, one);
  update.skip = 1;
  update_ema(0.9, flat(values), flat(first), pieces, &update, one);
  CHECK(first == second);
}

TEST_CASE("any number of ranks averages every element as one rank does") {
  ThreadPool pool(2);
  check_sharded_average(pool);
}
