#include "rope_table.h"

#include <cmath>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

namespace {

ModelConfig model(const std::string& type, double factor) {
  ModelConfig out;
  out.model_type = "llama";
  out.head_dim = 8;
  out.max_position_embeddings = 16;
  out.rope_scaling.type = type;
  out.rope_scaling.factor = factor;
  out.rope_scaling.original_max_position_embeddings = 64;
  return out;
}

}  // namespace

TEST_CASE("angles turn with powers of the base") {
  ThreadPool pool(1);
  const RopeTable table(model("", 1), 20, pool);
  for (std::int64_t i = 0; i < 4; ++i) {
    const double angle = 19 * std::pow(10000.0, -static_cast<double>(i) / 4);
    CHECK(table.cos(19, 20).data<float>()[i] == Approx(std::cos(angle)).margin(2e-6));
    CHECK(table.sin(19, 20).data<float>()[i] == Approx(std::sin(angle)).margin(2e-6));
  }
}

// Values of transformers' ROPE_INIT_FUNCTIONS for this model.
TEST_CASE("scaled frequencies are those of transformers") {
  const auto check = [](const ModelConfig& m, std::int64_t length,
                        const std::vector<double>& expected, double factor) {
    const RopeFrequencies actual = rope_frequencies(m, length);
    INFO(m.rope_scaling.type);
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(actual.inverse[i] == Approx(expected[i]).epsilon(1e-6));
    CHECK(actual.factor == Approx(factor).epsilon(1e-6));
  };
  check(model("linear", 4), 99, {0.25, 0.025, 0.0025, 0.00025}, 1);
  check(model("dynamic", 2), 16, {1, 0.1, 0.01, 0.001}, 1);
  check(model("dynamic", 2), 64, {1, 0.0522757955, 0.00273275888, 0.000142857141}, 1);
  check(model("llama3", 8), 99, {1, 0.0130422562, 0.00125, 0.000125}, 1);
  check(model("yarn", 4), 99, {1, 0.0625, 0.0025, 0.00025}, 1.13862944);
  ModelConfig mscaled = model("yarn", 4);
  mscaled.rope_scaling.mscale = 0.7;
  mscaled.rope_scaling.mscale_all_dim = 1.3;
  mscaled.rope_scaling.truncate = false;
  check(mscaled, 99, {1, 0.0255952496, 0.0025, 0.00025}, 0.929523492);
}

TEST_CASE("a dynamic table follows the length of the sequence, and comes back") {
  ThreadPool pool(1);
  RopeTable table(model("dynamic", 2), 64, pool);
  const float before = table.cos(9, 10).data<float>()[1];
  table.prepare(64, pool);
  CHECK(table.cos(9, 10).data<float>()[1] != before);
  table.prepare(10, pool);
  CHECK(table.cos(9, 10).data<float>()[1] == before);
}

TEST_CASE("a scaling that is not built is refused by name") {
  ThreadPool pool(1);
  CHECK_THROWS_WITH(RopeTable(model("longrope", 2), 4, pool),
                    "rope scaling \"longrope\" is not built");
}
