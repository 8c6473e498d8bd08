#include "hgtrain/arch/flops.h"

#include <catch2/catch.hpp>

#include "hgtrain/config/config.h"

#include "models.h"

using namespace hgt;

TEST_CASE("a training step's floating-point operations are counted") {
  // Products: 12 L C^2 + V C; attention: 12 L C T / 2 a token, causal half.
  const double per_token = 6 * (12 * 12 * 768.0 * 768 + 50257 * 768.0) + 12 * 12 * 768 * 512.0;
  CHECK(train_flops(gpt2_124m(), 1024, 10) == Approx(10 * per_token));

  ModelConfig windowed = llama3_8b();
  const double full = train_flops(windowed, 8192, 1);
  windowed.layer_windows.assign(32, 8192);
  CHECK(train_flops(windowed, 8192, 1) == full);
  windowed.layer_windows.assign(32, 1024);
  CHECK(full - train_flops(windowed, 8192, 1) ==
        Approx(12.0 * 32 * 4096 * (4096 - (1024 - 1024.0 * 1024 / (2 * 8192)))));
}

TEST_CASE("the gradients of weights need as many operations as the products in the forward") {
  Config config;
  config.model = gpt2_124m();
  config.training.seq_length = 1024;
  const std::vector<BlockTime> times = block_times(config);
  REQUIRE(times.size() == 14);
  double all = 0;
  for (const BlockTime& block : times) all += block.sum();
  CHECK(all == Approx(train_flops(config.model, 1024, 1)));
  const double attention = 4.0 * 12 * 64 * 512;
  CHECK(times[1].backward_weights == 2.0 * 12 * 768 * 768);
  CHECK(times[1].forward == times[1].backward_weights + attention);
  CHECK(times[1].backward_input == times[1].backward_weights + 2 * attention);
  CHECK(times.back().backward() == 0);  // the head computes its gradients in its forward
  config.recompute = {"full", 3};
  const std::vector<BlockTime> recomputed = block_times(config);
  CHECK(recomputed[3].backward_input == times[3].backward_input + times[3].forward);
  CHECK(recomputed[4].backward_input == times[4].backward_input);
  config.recompute = {"selective", 3};  // norms and activations: no product
  CHECK(block_times(config)[3].backward_input == times[3].backward_input);
}
