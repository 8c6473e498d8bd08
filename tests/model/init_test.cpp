#include "hgtrain/model/init.h"

#include <cmath>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/device/thread_pool.h"

#include "golden.h"

using namespace hgt;

namespace {

std::vector<float> initialised(const ParameterTable& table, std::uint64_t seed) {
  std::vector<float> flat(static_cast<std::size_t>(table.total), 99.0f);
  ThreadPool pool(2);
  init_parameters(table, seed, {0, table.total}, flat, pool);
  return flat;
}

}  // namespace

TEST_CASE("fresh parameters have the asked distribution, and padding is zero") {
  ModelConfig model = Golden("gpt2").model;
  model.hidden_size = 132;  // not a multiple of the alignment
  model.vocab_size = 500;
  const ParameterTable table = parameter_table(model, true);
  const std::vector<float> flat = initialised(table, 1);
  std::vector<bool> padding(flat.size(), true);
  for (const Parameter& p : table.parameters) {
    double sum = 0, squares = 0;
    for (std::int64_t i = p.offset; i < p.offset + p.numel; ++i) {
      const double v = static_cast<double>(flat[static_cast<std::size_t>(i)]);
      padding[static_cast<std::size_t>(i)] = false;
      sum += v;
      squares += v * v;
    }
    const double n = static_cast<double>(p.numel);
    INFO(p.name);
    if (p.init.kind == Init::kNormal) {
      CHECK(sum / n == Approx(0).margin(5 * p.init.std / std::sqrt(n)));
      CHECK(std::sqrt(squares / n) == Approx(p.init.std).epsilon(5 / std::sqrt(n)));
    } else {
      CHECK(sum == (p.init.kind == Init::kOnes ? n : 0));
      CHECK(squares == (p.init.kind == Init::kOnes ? n : 0));
    }
  }
  for (std::size_t i = 0; i < flat.size(); ++i)
    if (padding[i]) REQUIRE(flat[i] == 0);
}

TEST_CASE("a parameter's start depends on the seed and its name alone") {
  const ModelConfig model = Golden("gpt2").model;
  const ParameterTable table = parameter_table(model, false),
                       grouped = parameter_table(model, true);
  const std::vector<float> a = initialised(table, 7), b = initialised(grouped, 7);
  for (const Parameter& p : table.parameters) {
    const Parameter& q = grouped.find(p.name);
    CHECK(std::equal(a.begin() + p.offset, a.begin() + p.offset + p.numel, b.begin() + q.offset));
  }
  CHECK(initialised(table, 7) == a);
  CHECK(initialised(table, 8) != a);
}

TEST_CASE("a buffer of another size is refused") {
  std::vector<float> flat(3);
  ThreadPool pool(1);
  const ParameterTable table = parameter_table(Golden("gpt2").model, false);
  CHECK_THROWS_AS(init_parameters(table, 1, {0, table.total}, flat, pool), Error);
  CHECK_THROWS_AS(init_parameters(table, 1, {table.total - 1, table.total + 2}, flat, pool), Error);
}

TEST_CASE("a part of the parameters starts as it does in the whole") {
  const ParameterTable table = parameter_table(Golden("gpt2").model, false);
  const std::vector<float> whole = initialised(table, 3);
  ThreadPool pool(2);
  for (const Range elements :
       {Range{0, 1}, Range{17, 1000}, Range{table.total - 99, table.total}}) {
    std::vector<float> part(static_cast<std::size_t>(elements.size()), 99.0f);
    init_parameters(table, 3, elements, part, pool);
    CHECK(std::equal(part.begin(), part.end(), whole.begin() + elements.begin));
  }
}

TEST_CASE("tensor ranks draw the numbers that one rank draws") {
  ThreadPool pool(2);
  for (const char* name : {"gpt2", "llama", "qwen3"}) {
    ModelConfig model = Golden(name).model;
    model.vocab_size = 53;
    model.num_attention_heads = 8;
    model.num_key_value_heads = model.model_type == "gpt2" ? 8 : 2;
    model.head_dim = 6;
    const ParameterTable table = parameter_table(model, true);
    const std::vector<float> whole = initialised(table, 3);
    for (const int size : {1, 2, 4, 8})
      for (int rank = 0; rank < size; ++rank) {
        CAPTURE(name, size, rank);
        const ParameterTable local = parameter_table(model, true, size);
        std::vector<float> expected(static_cast<std::size_t>(local.total), 0.0f);
        for (const Parameter& p : local.parameters)
          p.placement({rank, size}).for_each_run({0, p.numel}, [&](const Placement::Run& run) {
            std::copy_n(whole.begin() + table.find(p.name).offset + run.whole, run.size,
                        expected.begin() + p.offset + run.local);
          });
        for (const Range elements : {Range{0, local.total}, Range{17, local.total - 99}}) {
          std::vector<float> drawn(static_cast<std::size_t>(elements.size()), 99.0f);
          init_parameters(local, 3, elements, drawn, pool, {rank, size});
          CHECK(std::equal(drawn.begin(), drawn.end(), expected.begin() + elements.begin));
        }
      }
  }
}
