#include "hgtrain/train/trainer.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <mutex>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/config/config.h"

#include "fakes.h"
#include "support/ranks.h"

using namespace hgt;

namespace {

constexpr std::int64_t kSeqLength = 5;

Config small_config(std::int64_t batch = 8, std::int64_t micro = 1) {
  Config config;
  config.batch = {.train_batch_size = batch, .micro_batch_size = micro};
  config.training.seq_length = kSeqLength;
  config.training.eval_iters = 2;
  config.optimizer.lr = 0.05;
  return config;
}

/// One rank of a job on the fakes, its weights at a fixed start.
struct Rank {
  Rank(const Config& config, Communicator& comm, const TrainingState& state = {})
      : plan(plan_rank(config, table, comm.rank(), comm.size(), 64)),
        buffers(config, plan),
        trainer(Trainer::Parts{.config = config,
                               .table = table,
                               .plan = plan,
                               .buffers = buffers,
                               .slots = slots,
                               .model = model,
                               .groups = comm,
                               .stream = pool,
                               .train = data,
                               .valid = &valid,
                               .progress = progress,
                               .requests = requests},
                state) {
    for (std::size_t i = 0; i < weights().size(); ++i)
      weights()[i] = 0.3f + 0.01f * static_cast<float>(i % 64);
  }
  std::span<float> weights() const { return buffers.parameters.as<float>(); }
  std::vector<float> copy() const { return {weights().begin(), weights().end()}; }

  const ParameterTable table = FakeModel::table();
  const RankPlan plan;
  const FlatBuffers buffers;
  const UnitSlots slots{table, plan, buffers};
  FakeModel model{buffers.parameters.as<float>(), buffers.gradients.as<float>()};
  ThreadPool pool{1};
  const FakeDataset data{1000, kSeqLength}, valid{23, kSeqLength};
  Progress progress;
  Requests requests;
  Trainer trainer;
};

/// Runs `body` on each rank of a world; fails the test if one throws.
void run_world(int size, const Config& config, const std::function<void(Rank&, int rank)>& body) {
  const auto errors = run_ranks(over_shared_memory, size, [&](Communicator& comm) {
    Rank rank(config, comm);
    body(rank, comm.rank());
  });
  for (const std::string& error : errors) CHECK(error == "");
}

std::vector<double> losses_of(int size, const Config& config, int steps) {
  std::vector<double> losses;
  run_world(size, config, [&](Rank& rank, int number) {
    for (int i = 0; i < steps; ++i) {
      const double loss = rank.trainer.step().loss;
      if (number == 0) losses.push_back(loss);
    }
  });
  return losses;
}

}  // namespace

TEST_CASE("any number of workers gives the losses of one, even if shares are uneven or empty") {
  const auto one = losses_of(1, small_config(), 20);
  CHECK(one.back() < one.front());
  for (int size : {2, 3, 4, 9}) {
    const auto several = losses_of(size, small_config(), 20);
    for (int i = 0; i < 20; ++i) CHECK(several[i] == Approx(one[i]).epsilon(1e-6));
  }
}

TEST_CASE("accumulating micro-batches gives the losses of one large batch") {
  const auto whole = losses_of(1, small_config(8, 8), 20);
  const auto parts = losses_of(1, small_config(8, 2), 20);
  for (int i = 0; i < 20; ++i) CHECK(parts[i] == Approx(whole[i]).epsilon(1e-6));
}

TEST_CASE("two runs are bit-identical, and so are the weights of all ranks") {
  std::vector<std::vector<float>> weights;
  std::mutex mutex;
  for (int run = 0; run < 2; ++run)
    run_world(3, small_config(), [&](Rank& rank, int) {
      for (int i = 0; i < 5; ++i) rank.trainer.step();
      const std::lock_guard lock(mutex);
      weights.push_back(rank.copy());
    });
  REQUIRE(weights.size() == 6);
  for (const auto& w : weights) CHECK(w == weights[0]);
}

TEST_CASE("each step's samples are disjoint over the ranks and cover the batch in order") {
  std::multiset<std::int64_t> taken;
  std::mutex mutex;
  run_world(3, small_config(), [&](Rank& rank, int) {
    for (int i = 0; i < 2; ++i) {
      const StepResult result = rank.trainer.step();
      const std::lock_guard lock(mutex);
      taken.insert(result.samples.begin(), result.samples.end());
    }
  });
  std::multiset<std::int64_t> expected;
  for (std::int64_t i = 0; i < 16; ++i) expected.insert(i);
  CHECK(taken == expected);
}

TEST_CASE("every gradient element is reduced once a step, however many micro-batches") {
  for (std::int64_t micro : {1, 4})
    run_world(2, small_config(8, micro), [&](Rank& rank, int) {
      const StepResult result = rank.trainer.step();
      if (result.reduced_bytes != rank.buffers.gradients.as<std::byte>().size())
        throw Error(ErrorKind::kInternal, "wrong number of bytes");
    });
}

TEST_CASE("evaluation gives the same number, to the bit, whatever the world") {
  std::vector<double> values;
  std::mutex mutex;
  for (int size : {1, 2, 5})
    run_world(size, small_config(), [&](Rank& rank, int) {
      const double value = rank.trainer.evaluate();
      const std::lock_guard lock(mutex);
      values.push_back(value);
    });
  CHECK(std::set<double>(values.begin(), values.end()).size() == 1);
}

TEST_CASE("if the validation data is small, an evaluation takes what there is") {
  Config config = small_config();
  config.training.eval_iters = 1000;
  run_world(2, config, [](Rank& rank, int) {
    if (!(rank.trainer.evaluate() > 0)) throw Error(ErrorKind::kInternal, "no evaluation");
  });
}

TEST_CASE("a request on one rank reaches all ranks with the current step") {
  run_world(2, small_config(), [](Rank& rank, int number) {
    if (number == 1) rank.requests.checkpoint = true;
    const StepResult first = rank.trainer.step(), second = rank.trainer.step();
    if (!first.checkpoint_requested || first.stop_requested || second.checkpoint_requested)
      throw Error(ErrorKind::kInternal, "the request did not arrive once");
    if (number == 0) rank.requests.stop = true;
    if (!rank.trainer.step().stop_requested) throw Error(ErrorKind::kInternal, "no stop");
  });
}

TEST_CASE("every rank learns the largest usage of all with a step") {
  run_world(3, small_config(), [](Rank& rank, int number) {
    rank.trainer.queue_step(
        {100.0 * number, 100.0 - number, number == 1 ? 5.0 : 1.0, 7.0 * number});
    if (rank.trainer.finish_step().usage != RankUsage{200, 100, 5, 14})
      throw Error(ErrorKind::kInternal, "another usage");
    if (rank.trainer.step().usage != RankUsage{})
      throw Error(ErrorKind::kInternal, "the usage of an earlier step");
  });
}

TEST_CASE("a run that resumes from a saved state is bit-identical to one that was not stopped") {
  Config config = small_config();
  config.training.ema_decay = 0.8;
  config.optimizer.type = GENERATE(as<std::string>(), "AdamW", "Lamb", "Lion", "Adagrad", "SGD");
  config.optimizer.momentum = 0.5;
  const auto comm = make_self_communicator();
  Rank whole(config, *comm);
  for (int i = 0; i < 7; ++i) whole.trainer.step();

  Rank first(config, *comm);
  for (int i = 0; i < 3; ++i) first.trainer.step();
  Rank second(config, *comm, first.trainer.state());
  const FlatState from = first.buffers.state(), to = second.buffers.state();
  const auto copy = [](const Tensor& values, const Tensor& out) {
    std::memcpy(out.raw(), values.raw(), static_cast<std::size_t>(out.numel()) * 4);
  };
  copy(from.parameters.values, to.parameters.values);
  copy(from.ema.values, to.ema.values);
  for (std::size_t m = 0; m < from.moments.size(); ++m)
    copy(from.moments[m].values.values, to.moments[m].values.values);
  for (int i = 0; i < 4; ++i) second.trainer.step();
  CHECK(second.copy() == whole.copy());
  const auto ema = whole.buffers.ema.as<float>();
  CHECK(std::equal(ema.begin(), ema.end(), to.ema.values.data<float>()));
  CHECK(second.trainer.state().consumed_samples == 56);
}

TEST_CASE("gradients are divided by the loss scale that multiplied them, while it grows") {
  std::vector<std::vector<float>> weights;
  for (const double fixed : {1.0, 0.0}) {
    Config config = small_config();
    config.precision = {.fp16 = true, .loss_scale = fixed, .initial_scale_power = 4};
    config.precision.loss_scale_window = 1;
    const auto comm = make_self_communicator();
    TrainingState state;
    state.loss_scale = LossScaler(config.precision).initial();
    Rank rank(config, *comm, state);
    std::vector<double> scales;
    for (int i = 0; i < 4; ++i) scales.push_back(rank.trainer.step().loss_scale);
    CHECK(scales ==
          (fixed > 0 ? std::vector<double>{1, 1, 1, 1} : std::vector<double>{16, 16, 32, 64}));
    weights.push_back(rank.copy());
  }
  CHECK(weights[0] == weights[1]);  // to the bit: the scales are powers of two
}

TEST_CASE("a fixed loss scale that always overflows ends the run after a hundred steps") {
  Config config = small_config();
  config.precision = {.fp16 = true, .loss_scale = 1e38};
  const auto comm = make_self_communicator();
  TrainingState state;
  state.loss_scale = LossScaler(config.precision).initial();
  Rank rank(config, *comm, state);
  for (float& weight : rank.weights()) weight *= 100;
  const auto before = rank.copy();
  for (int i = 0; i < 99; ++i) CHECK(rank.trainer.step().skipped);
  CHECK_THROWS_WITH(rank.trainer.step(), Catch::Matchers::Contains("100 steps in a row"));
  CHECK(rank.copy() == before);
}

TEST_CASE("a loss that is not finite ends the run before the update, naming step and tensor") {
  const Config config = small_config();
  const auto comm = make_self_communicator();
  Rank rank(config, *comm);
  rank.trainer.step();
  rank.weights()[ParameterTable::kAlignment + 2] = std::numeric_limits<float>::infinity();
  const auto before = rank.copy();
  CHECK_THROWS_WITH(rank.trainer.step(), Catch::Contains("step 2: loss is inf") &&
                                             Catch::Contains("the weight of b: element 2 is inf"));
  CHECK(rank.copy() == before);
}

TEST_CASE("a gradient that is not finite is named while the weights are still finite") {
  const Config config = small_config();
  const auto comm = make_self_communicator();
  Rank rank(config, *comm);
  for (float& w : rank.weights())
    w = 1e25f;  // the loss still fits in fp64, the gradient not in fp32
  CHECK_THROWS_WITH(rank.trainer.step(), Catch::Contains("the gradient of a"));
}
