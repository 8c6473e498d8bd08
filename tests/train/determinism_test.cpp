#include <tuple>
#include <vector>

#include <catch2/catch.hpp>

#include "gpt2_run.h"

using namespace hgt;

namespace {

/// What some steps leave: every loss and gradient norm, and the weights.
using Trace = std::tuple<std::vector<double>, std::vector<std::uint16_t>>;

Trace trained(Config config, int threads) {
  config.hardware.threads = threads;
  Gpt2Run run(config);
  std::vector<double> numbers;
  for (int i = 0; i < 2; ++i) {
    const StepResult result = run.step();
    numbers.insert(numbers.end(), {result.loss, result.grad_norm});
  }
  return {numbers, {run.parameters().begin(), run.parameters().end()}};
}

const PrecisionConfig kPrecisions[] = {{},
                                       {.fp16 = true},
                                       {.bf16 = true},
                                       {.bf16 = true, .bf16_parameters = true},
                                       {.bf16 = true, .bf16_parameters = true, .bf16_state = true}};

}  // namespace

TEST_CASE("two runs have the same bits, in every precision") {
  for (const PrecisionConfig& precision : kPrecisions) {
    const Trace one = trained(gpt2_config(precision), 2), two = trained(gpt2_config(precision), 2);
    CHECK((one == two));
  }
}

TEST_CASE("a deterministic run has the same bits for any number of threads") {
  for (const PrecisionConfig& precision : kPrecisions)
    for (const char* const recompute : {"none", "full"}) {
      Config config = gpt2_config(precision);
      config.training.deterministic = true;
      config.recompute.mode = recompute;
      const Trace one = trained(config, 1);
      INFO(name_of(precision.compute_dtype()) << ", recompute " << recompute);
      CHECK((trained(config, 2) == one));
      CHECK((trained(config, 3) == one));
    }
}
