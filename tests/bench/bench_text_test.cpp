#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/bench/bench.h"

#include "train/tiny_config.h"

using namespace hgt;

namespace {

void check_has(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words) CHECK_THAT(text, Catch::Matchers::Contains(word));
}

Config tiny_bench() {
  Config config = tiny_config();
  config.training.seq_length = 8;
  config.batch = {.train_batch_size = 1, .micro_batch_size = 1, .gradient_accumulation_steps = 1};
  return config;
}

}  // namespace

TEST_CASE("every bench has a text that says what it measured, and of what") {
  const Config config = tiny_bench();
  const char* const head = "gpt2: 1 layer of 8, 2 heads, vocabulary 16; 1 x 8 tokens";
  check_has(bench_text(bench_train(config, 1, 0)),
            {head, "1 thread", "tok/s", "of the limit", "planned", "8 x 24 x 8", "GFLOP/s"});
  check_has(bench_text(bench_gemm(config, 1)), {head, "fp32: ", "bf16: ", "qkv wgrad", "p90"});
  check_has(bench_text(bench_ops(config, 1)),
            {head, "layer_norm_bwd, ", "linear_fwd gemm, 3.07kFLOP", "GB/s", "wait for data"});
}

TEST_CASE("each figure of a spread has its unit, and milliseconds have no prefix") {
  const auto spread = [](double median) {
    return nlohmann::ordered_json{{"median", median}, {"p10", median / 2}, {"p90", 2 * median}};
  };
  const nlohmann::ordered_json copies{
      {"bench", "copy"},
      {"cpu", "a CPU"},
      {"bytes", 1 << 28},
      {"copies", {{{"copy", "host to GPU"}, {"bytes_per_sec", spread(9e8)}}}}};
  check_has(bench_text(copies),
            {"a CPU: copies of 256 MiB\n", "900 MB/s (p10 450 MB/s, p90 1.80 GB/s)\n"});
  nlohmann::ordered_json result = bench_train(tiny_bench(), 1, 0);
  result["step_ms"] = spread(1580);
  check_has(bench_text(result), {"a step 1580.0 (p10 790.0, p90 3160.0) ms, fp32"});
  result["step_ms"] = spread(0.5);
  check_has(bench_text(result), {"a step 0.50 (p10 0.25, p90 1.00) ms, fp32"});
}

TEST_CASE("ops of one name differ in their sizes, and no column touches the next") {
  const auto op = [](double bytes, double ms) {
    return nlohmann::ordered_json{{"op", "linear_bwd_weight add_column_sums"},
                                  {"calls_per_step", 12},
                                  {"ms", {{"median", ms}, {"p10", ms}, {"p90", ms}}},
                                  {"ms_per_step", 12 * ms},
                                  {"share", 0.5},
                                  {"bytes", bytes},
                                  {"bytes_per_sec", 506900},
                                  {"of_ceiling", 12.345}};
  };
  nlohmann::ordered_json result = bench_ops(tiny_bench(), 1);
  result["ops"] = {op(3e6, 0.0154), op(12e6, 1234.5678)};
  check_has(bench_text(result), {"linear_bwd_weight add_column_sums, 3.00MB",
                                 "linear_bwd_weight add_column_sums, 12.0MB",
                                 "(0.0154, 0.0154)        507 kB/s  1234.5%",
                                 " 1234.5678 (1234.5678, 1234.5678)        507 kB/s "});
}
