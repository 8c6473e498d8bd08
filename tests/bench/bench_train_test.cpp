#include <cmath>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/bench/bench.h"

#include "train/tiny_config.h"

using namespace hgt;

TEST_CASE("training is compared with its own products, and its memory with the plan") {
  Config config = tiny_config();
  config.training.seq_length = 8;
  config.batch = {.train_batch_size = 2, .micro_batch_size = 1, .gradient_accumulation_steps = 2};
  const std::int64_t start_ns = now_ns();
  const auto result = bench_train(config, 3, start_ns);
  CHECK(result["tokens_per_step"] == 16);
  // Two steps that warm up, one that is not timed, and three; the tokens are drawn uniformly.
  CHECK(result["last_step"]["step"] == 6);
  CHECK(result["last_step"]["loss"].get<double>() ==
        Approx(std::log(static_cast<double>(config.model.vocab_size))).epsilon(0.3));
  CHECK(result["last_step"]["grad_norm"].get<double>() > 0);
  double limit_ms = 0;
  for (const auto& product : result["products"])
    limit_ms += product["calls_per_step"].get<double>() * product["ms"]["median"].get<double>();
  CHECK(result["gemm_limit_ms"].get<double>() == Approx(limit_ms));
  CHECK(result["first_step_ms"] > 0);
  CHECK(result["first_step_ms"] < ms_since(start_ns));
  CHECK(result["planned_bytes"].get<std::int64_t>() >
        16 * result["parameters"].get<std::int64_t>());
  CHECK(result["tokens_per_sec"]["p10"] <= result["tokens_per_sec"]["p90"]);
}
