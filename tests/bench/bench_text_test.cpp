#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/bench/bench.h"

#include "train/tiny_config.h"

using namespace hgt;

namespace {

void check_has(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words) CHECK_THAT(text, Catch::Matchers::Contains(word));
}

}  // namespace

TEST_CASE("every bench has a text that says what it measured, and of what") {
  Config config = tiny_config();
  config.training.seq_length = 8;
  config.batch = {.train_batch_size = 1, .micro_batch_size = 1, .gradient_accumulation_steps = 1};
  const char* const head = "gpt2: 1 layer of 8, 2 heads, vocabulary 16; 1 x 8 tokens";
  check_has(bench_text(bench_train(config, 1, 0)),
            {head, "1 thread", "tok/s", "of the limit", "planned", "8 x 24 x 8", "GFLOP/s"});
  check_has(bench_text(bench_gemm(config, 1)), {head, "fp32: ", "bf16: ", "qkv wgrad", "p90"});
  check_has(bench_text(bench_ops(config, 1)),
            {head, "layer_norm_bwd", "linear_fwd gemm, 3.07kFLOP", "GB/s", "wait for data"});
}
