#include "parameter_update.h"

#include <vector>

#include "trained_ranks.h"

using namespace hgt;

TEST_CASE(
    "an update moves the weights against the clipped gradient, and the average towards them") {
  Config config = zero_config(0);
  config.optimizer.type = "SGD";
  config.optimizer.weight_decay = 0;
  config.training.ema_decay = 0.75;
  const auto comm = make_self_communicator();
  TrainedRank rank(config, *comm);
  const auto copy = [](const Buffer& buffer) {
    const auto values = buffer.as<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  const std::vector<float> before = copy(rank.buffers.parameters), average = copy(rank.buffers.ema);
  const double norm = rank.trainer.step().grad_norm;
  const std::vector<float> gradients = copy(rank.buffers.gradients),
                           after = copy(rank.buffers.parameters), moved = copy(rank.buffers.ema);
  CHECK(norm == Approx(norm_of(gradients)));
  REQUIRE(norm > config.gradient_clipping);
  const auto rate = static_cast<float>(config.optimizer.lr * config.gradient_clipping / norm);
  for (std::size_t i = 0; i < before.size(); i += 97) {
    CHECK(after[i] == Approx(before[i] - rate * gradients[i]));
    CHECK(moved[i] == Approx(0.75f * average[i] + 0.25f * after[i]).margin(1e-7));
  }
}

TEST_CASE("the ranks of a step that is not finite keep weights and average") {
  for (const int stage : {0, 1, 3}) {
    CAPTURE(stage);
    Config config = zero_config(stage);
    config.training.ema_decay = 0.75;
    config.precision = {.fp16 = true, .loss_scale = 1e38};
    const auto errors = run_ranks(over_shared_memory, 2, [&](Communicator& comm) {
      TrainedRank rank(config, comm);
      const auto kept = [&] {
        std::vector<WholeTensors> out(2);
        put(rank.buffers.parameter_values(), rank, out[0]);
        put(rank.buffers.ema_values(), rank, out[1]);
        return out;
      };
      const std::vector<WholeTensors> before = kept();
      if (!rank.trainer.step().skipped)
        throw Error(ErrorKind::kInternal, "the step was not skipped");
      if (kept() != before) throw Error(ErrorKind::kInternal, "the skipped step changed something");
    });
    for (const std::string& error : errors) CHECK(error == "");
  }
}
