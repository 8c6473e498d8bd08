#include "start.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"

#include "support/ranks.h"
#include "support/temporary_folder.h"
#include "tiny_config.h"

using namespace hgt;

namespace {

constexpr std::uint64_t kData = 5;  ///< a fingerprint

/// One rank's buffers, started by `options`.
struct Started {
  Started(const Config& config, const RunOptions& options, Communicator& comm,
          std::uint64_t data = kData, std::uint64_t old_data = 0)
      : table(parameter_table(config.model, false)),
        plan(plan_rank(config, table, comm.rank(), comm.size())),
        buffers(config, plan),
        start(prepare_start(config, options, table, plan, buffers, {data, old_data}, pool, comm)) {}
  std::vector<float> weights() const {
    const auto flat = buffers.parameters.as<float>();
    return {flat.begin(), flat.end()};
  }

  ThreadPool pool{1};
  ParameterTable table;
  RankPlan plan;
  FlatBuffers buffers;
  Start start;
};

/// Starts `config` fresh, changes the state and saves it as step 3.
std::vector<float> save_step_3(const Config& config, const RunOptions& options,
                               Communicator& comm) {
  Started run(config, {}, comm);
  run.buffers.parameters.as<float>()[0] = 42;
  for (const Buffer& buffer : run.buffers.optimizer_state) buffer.as<float>()[1] = 43;
  if (config.training.ema_decay > 0) run.buffers.ema.as<float>()[0] = 44;
  run.start.state.step = run.start.state.optimizer_steps = 3;
  CheckpointWriter::Options where;
  where.run_dir = options.run_dir;
  const auto writer = CheckpointWriter::create(config.model, run.table, where);
  writer->save(run.start.state, run.buffers.state());
  REQUIRE_FALSE(writer->wait());
  return run.weights();
}

}  // namespace

TEST_CASE("a fresh start has the same weights on every rank, drawn from the seed") {
  std::vector<std::vector<float>> weights;
  std::mutex mutex;
  const auto errors = run_ranks(over_shared_memory, 3, [&](Communicator& comm) {
    const Started run(tiny_config(), {}, comm);
    const std::lock_guard lock(mutex);
    weights.push_back(run.weights());
  });
  CHECK(errors == std::vector<std::string>(3));
  CHECK(weights[0] == weights[1]);
  CHECK(weights[0] == weights[2]);
  Config other = tiny_config();
  other.training.seed += 1;
  const auto comm = make_self_communicator();
  CHECK(Started(other, {}, *comm).weights() != weights[0]);
}

TEST_CASE("auto resumes from the newest checkpoint, and starts anew if there is none") {
  const TemporaryFolder folder;
  const RunOptions options{.run_dir = folder.path(), .resume = "auto"};
  const auto comm = make_self_communicator();
  const Started fresh(tiny_config(), options, *comm);
  CHECK(fresh.start.checkpoint == "");
  CHECK(fresh.start.state.step == 0);

  const auto saved = save_step_3(tiny_config(), options, *comm);
  const Started resumed(tiny_config(), options, *comm);
  CHECK(resumed.start.checkpoint == folder / "checkpoints/step_00000003");
  CHECK(resumed.start.state.step == 3);
  CHECK(resumed.weights() == saved);
  CHECK(resumed.buffers.optimizer_state[0].as<float>()[1] == 43);

  const Started ignored(tiny_config(), {.run_dir = folder.path(), .resume = "none"}, *comm);
  CHECK(ignored.start.state.step == 0);
}

TEST_CASE("auto skips a damaged checkpoint and says so; if there is no other, it is refused") {
  const TemporaryFolder folder;
  const RunOptions options{.run_dir = folder.path(), .resume = "auto"};
  const auto comm = make_self_communicator();
  save_step_3(tiny_config(), options, *comm);
  const std::string older = folder / "checkpoints/step_00000003";
  const std::string newer = folder / "checkpoints/step_00000004";
  std::filesystem::copy(older, newer);
  write_file_atomically(newer + "/trainer_state.json", "{}");
  const Started run(tiny_config(), options, *comm);
  CHECK(run.start.checkpoint == older);
  REQUIRE(run.start.refused.size() == 1);
  CHECK_THAT(run.start.refused[0], Catch::Contains("step_00000004/trainer_state.json is damaged"));
  write_file_atomically(newer + "/manifest.json", "{}");
  CHECK_THAT(Started(tiny_config(), options, *comm).start.refused.at(0),
             Catch::Contains("(" + newer + "/manifest.json)"));

  const RunOptions named{.run_dir = folder.path(), .resume = newer};
  CHECK_THROWS_WITH(Started(tiny_config(), named, *comm), Catch::Contains("is damaged"));
  std::filesystem::remove_all(older);
  CHECK_THROWS_WITH(Started(tiny_config(), options, *comm), Catch::Contains("is damaged"));
}

TEST_CASE("every rank gets the same state, of which each reads its slices") {
  const TemporaryFolder folder;
  const RunOptions options{.run_dir = folder.path(), .resume = "auto"};
  save_step_3(tiny_config(), options, *make_self_communicator());
  const auto errors = run_ranks(over_shared_memory, 2, [&](Communicator& comm) {
    const Started run(tiny_config(), options, comm);
    if (run.start.state.step != 3 || run.weights()[0] != 42 ||
        run.buffers.optimizer_state[0].as<float>()[1] != 43)
      throw Error(ErrorKind::kInternal, "state differs");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("all ranks skip a checkpoint in which one of them finds damage, or all refuse it") {
  Config config = tiny_config();
  config.model.vocab_size = 8192;  // so that each of two ranks has a part of the embedding
  const TemporaryFolder folder;
  const RunOptions options{.run_dir = folder.path(), .resume = "auto"};
  const std::vector<float> saved = save_step_3(config, options, *make_self_communicator());
  const std::string older = folder / "checkpoints/step_00000003";
  const std::string newer = folder / "checkpoints/step_00000004";
  std::filesystem::copy(older, newer);
  std::string bytes = read_file(newer + "/model.safetensors", 1 << 20);
  const std::size_t last = bytes.size() - 1;
  bytes[last] = static_cast<char>(bytes[last] ^ 1);
  write_file_atomically(newer + "/model.safetensors", bytes);
  const auto start = [&](const RunOptions& how) {
    return run_ranks(over_shared_memory, 2, [&](Communicator& comm) {
      const Started run(config, how, comm);
      if (run.start.checkpoint != older || run.weights() != saved)
        throw Error(ErrorKind::kInternal, "state differs");
      if (run.start.refused.size() != 1 ||
          run.start.refused[0].find("step_00000004/model.safetensors is damaged") ==
              std::string::npos)
        throw Error(ErrorKind::kInternal, "it was not refused");
    });
  };
  CHECK(start(options) == std::vector<std::string>(2));
  for (const std::string& error : start({.run_dir = folder.path(), .resume = newer}))
    CHECK_THAT(error, Catch::Contains("step_00000004/model.safetensors is damaged: tensor"));
}

TEST_CASE("a checkpoint of other batches or of another model is refused") {
  const TemporaryFolder folder;
  const RunOptions options{.run_dir = folder.path(), .resume = "auto"};
  const auto comm = make_self_communicator();
  save_step_3(tiny_config(), options, *comm);
  Config changed = tiny_config();
  changed.training.seed = 99;
  CHECK_THROWS_WITH(Started(changed, options, *comm),
                    Catch::EndsWith("was trained on other batches"));
  CHECK_THROWS_AS(Started(tiny_config(), options, *comm, kData + 1), Error);
  changed = tiny_config();
  changed.data.valid_fraction = 0.5;
  CHECK_THROWS_AS(Started(changed, options, *comm), Error);
  changed = tiny_config();
  changed.data.train = {{"a", 0.5}};
  CHECK_THROWS_AS(Started(changed, options, *comm), Error);
  changed = tiny_config();
  changed.data.separate_documents = true;
  CHECK_THROWS_AS(Started(changed, options, *comm), Error);
  changed = tiny_config();
  changed.model.intermediate_size = 64;
  CHECK_THROWS_AS(Started(changed, options, *comm), Error);
}

TEST_CASE("a checkpoint of an earlier version, which knows the data by its ends, can be resumed") {
  const TemporaryFolder folder;
  const RunOptions options{.run_dir = folder.path(), .resume = "auto"};
  const auto comm = make_self_communicator();
  const Config config = tiny_config();
  Started run(config, {}, *comm);
  run.start.state.step = 3;
  run.start.state.config_digest = old_config_digest(config, 77);
  CheckpointWriter::Options where;
  where.run_dir = options.run_dir;
  const auto writer = CheckpointWriter::create(config.model, run.table, where);
  writer->save(run.start.state, run.buffers.state());
  REQUIRE_FALSE(writer->wait());
  CHECK_THROWS_AS(Started(config, options, *comm, kData, 78), Error);
  const Started resumed(config, options, *comm, kData, 77);
  CHECK(resumed.start.state.step == 3);
  CHECK(resumed.start.state.config_digest == config_digest(config, kData));  // of what it saves
}

TEST_CASE(
    "a moving average continues from the checkpoint, or starts from its weights and says so") {
  const TemporaryFolder folder;
  const RunOptions options{.run_dir = folder.path(), .resume = "auto"};
  const auto comm = make_self_communicator();
  Config config = tiny_config();
  save_step_3(config, options, *comm);
  config.training.ema_decay = 0.9;
  const auto ema_of = [](const Started& run) {
    const auto ema = run.buffers.ema.as<float>();
    return std::vector<float>{ema.begin(), ema.end()};
  };
  const Started started(config, options, *comm);
  CHECK(ema_of(started) == started.weights());
  CHECK(started.start.notice == folder / "checkpoints/step_00000003" +
                                    " has no moving average: it starts from the weights");

  const TemporaryFolder other;
  const RunOptions with{.run_dir = other.path(), .resume = "auto"};
  save_step_3(config, with, *comm);
  const Started resumed(config, with, *comm);
  CHECK(resumed.start.notice == "");
  CHECK(resumed.weights()[0] == 42);
  CHECK(ema_of(resumed)[0] == 44);
  config.training.ema_decay = 0;
  CHECK(Started(config, with, *comm).start.state.step == 3);
}

TEST_CASE("with a checkpoint of another precision, the loss scale starts anew") {
  const TemporaryFolder folder;
  const RunOptions options{.run_dir = folder.path(), .resume = "auto"};
  const auto comm = make_self_communicator();
  Config half = tiny_config();
  half.precision.fp16 = true;
  save_step_3(tiny_config(), options, *comm);
  CHECK(Started(half, options, *comm).start.state.loss_scale.scale == 65536);
  const TemporaryFolder other;
  const RunOptions of_half{.run_dir = other.path(), .resume = "auto"};
  save_step_3(half, of_half, *comm);
  CHECK(Started(tiny_config(), of_half, *comm).start.state.loss_scale == LossScale{});
  half.precision.initial_scale_power = 4;
  CHECK(Started(half, of_half, *comm).start.state.loss_scale.scale == 65536);
}

TEST_CASE("another optimizer than the checkpoint's is refused") {
  const TemporaryFolder folder;
  const RunOptions options{.run_dir = folder.path(), .resume = "auto"};
  const auto comm = make_self_communicator();
  save_step_3(tiny_config(), options, *comm);
  Config config = tiny_config();
  for (const char* type : {"SGD", "Adagrad", "Lion"}) {
    config.optimizer.type = type;
    CHECK_THROWS_WITH(Started(config, options, *comm),
                      Catch::Contains("belongs to another optimizer"));
    const TemporaryFolder own;
    const RunOptions there{.run_dir = own.path(), .resume = "auto"};
    save_step_3(config, there, *comm);
    CHECK(Started(config, there, *comm).weights()[0] == 42);
  }
}

TEST_CASE("the weights of a model folder start a run at step 0") {
  const TemporaryFolder folder;
  const auto comm = make_self_communicator();
  const auto saved = save_step_3(tiny_config(), {.run_dir = folder.path()}, *comm);
  Config config = tiny_config();
  config.model.init = folder / "checkpoints/step_00000003";
  const Started run(config, {}, *comm);
  CHECK(run.weights() == saved);
  CHECK(run.start.state.step == 0);
  CHECK(run.buffers.optimizer_state[0].as<float>()[1] == 0);
}
