#include "bad_tensor.h"

#include <cmath>
#include <mutex>
#include <string>
#include <vector>

#include "trained_ranks.h"

using namespace hgt;

TEST_CASE("every rank names the same tensor that is not finite first") {
  for (const int stage : {0, 1, 2, 3}) {
    Config config = zero_config(stage);
    config.optimizer.lr = 1e30;
    std::vector<std::string> messages(2);
    run_ranks(over_shared_memory, 2, [&](Communicator& comm) {
      TrainedRank rank(config, comm);
      try {
        for (int i = 0; i < 5; ++i) rank.trainer.step();
      } catch (const Error& e) {
        messages[static_cast<std::size_t>(comm.rank())] = e.message();
      }
    });
    CAPTURE(stage);
    CHECK_THAT(messages[0],
               Catch::Contains("the first tensor that is not finite is the gradient of "));
    CHECK(messages[0] == messages[1]);
  }
}

TEST_CASE("all tensor ranks name the same bad tensor, and the element of the whole parameter") {
  Config config = zero_config(0);
  config.parallelism.tensor_parallel_size = 2;
  const auto errors = run_groups(over_shared_memory, config, 2, [&](const Groups& groups) {
    TrainedRank rank(config, groups);
    const Parameter& up = rank.table.find("transformer.h.1.mlp.c_fc.weight");  // [128, 512]
    if (groups.tensor->rank() == 1)
      rank.buffers.parameters.as<float>()[static_cast<std::size_t>(up.offset) + 256 + 3] = NAN;
    rank.trainer.step();
  });
  for (const std::string& error : errors) CHECK(error == errors.front());
  CHECK_THAT(errors.front(),
             Catch::Contains("the first tensor that is not finite is the weight of "
                             "transformer.h.1.mlp.c_fc.weight: element 771 is nan"));
}

TEST_CASE("all context ranks name the same bad tensor") {
  Config config = zero_config(1);
  config.parallelism.context_parallel_size = 2;
  const auto errors = run_groups(over_shared_memory, config, 2, [&](const Groups& groups) {
    TrainedRank rank(config, groups);
    const Parameter& up = rank.table.find("transformer.h.1.mlp.c_fc.weight");
    rank.settle(groups);
    rank.buffers.parameters.as<float>()[static_cast<std::size_t>(up.offset) + 259] = NAN;
    rank.trainer.step();
  });
  for (const std::string& error : errors)
    CHECK_THAT(error, Catch::Contains("the first tensor that is not finite is the weight of "
                                      "transformer.h.1.mlp.c_fc.weight: element 259 is nan"));
}

TEST_CASE("all stages name the same bad tensor, the one that has it first") {
  for (const int bad_stage : {0, 1, 2}) {
    Config config = zero_config(0);
    config.parallelism.pipeline_parallel_size = 3;
    std::mutex mutex;
    std::vector<int> order;
    const auto errors = run_groups(over_shared_memory, config, 3, [&](const Groups& groups) {
      TrainedRank rank(config, groups);
      rank.settle(groups);
      if (groups.world->rank() == bad_stage) rank.buffers.parameters.as<float>()[3] = NAN;
      try {
        rank.trainer.step();
      } catch (const Error&) {
        const std::lock_guard lock(mutex);
        order.push_back(groups.world->rank());
        throw;
      }
    });
    REQUIRE(order.size() == 3);
    CHECK(order.front() == bad_stage);
    for (const std::string& error : errors) CHECK(error == errors.front());
    CHECK_THAT(
        errors.front(),
        Catch::Contains("the first tensor that is not finite is the weight of transformer.") &&
            Catch::Contains(": element 3 is nan"));
  }
}
