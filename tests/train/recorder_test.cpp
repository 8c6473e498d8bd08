#include "recorder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/file_ops.h"
#include "hgtrain/config/run_checkpoints.h"

#include "support/failing_file_ops.h"
#include "support/load_checkpoint.h"
#include "support/put_file.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"
#include "tiny_config.h"

using namespace hgt;

namespace {

/// Keeps the events that a worker sends.
class EventChannel final : public MemoryChannel {
 public:
  void send(const std::string& kind, const nlohmann::json& body) override {
    kinds.push_back(kind);
    bodies.push_back(body);
  }
  std::vector<std::string> kinds;
  std::vector<nlohmann::json> bodies;
};

StepRecord record_of(std::int64_t step, double loss) {
  StepRecord record;
  record.step = step;
  record.loss = loss;
  return record;
}

/// Notes what is synced and renamed, in order.
class Order final : public FileOps {
 public:
  int fsync(int fd) override {
    log.push_back(
        "sync " +
        std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd)).filename().string());
    return FileOps::fsync(fd);
  }
  int rename(const char* from, const char* to) override {
    log.push_back("name " + std::filesystem::path(to).filename().string());
    return FileOps::rename(from, to);
  }
  auto find(const std::string& text) const { return std::find(log.begin(), log.end(), text); }
  std::vector<std::string> log;
};

struct Fixture {
  Fixture() : Fixture(make_self_communicator()) {}
  explicit Fixture(std::unique_ptr<Communicator> ranks)
      : saver(std::move(ranks)),
        table(parameter_table(config.model, false)),
        buffers(config, plan_rank(config, table)),
        recorder(config, {.run_dir = folder.path()}, table, *saver, channel) {}

  void start() {
    recorder.begin({}, "");
    recorder.started({}, "", true);
  }
  void save(std::int64_t step) {
    recorder.save({.step = step}, buffers.state());
    recorder.finish(false);
  }

  std::string metrics() const {
    std::ifstream in(folder / "metrics.jsonl");
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::unique_ptr<Communicator> saver;
  TemporaryFolder folder;
  EventChannel channel;
  Config config = tiny_config();
  ParameterTable table;
  FlatBuffers buffers;
  Recorder recorder;
};

}  // namespace

TEST_CASE("rank 0 writes metrics and checkpoints, and reports them to the launcher") {
  Fixture f;
  f.start();
  f.recorder.step(record_of(1, 2.5));
  f.recorder.save({.step = 1}, f.buffers.state());
  f.recorder.finish(false);
  CHECK(f.channel.kinds == std::vector<std::string>{"started", "metrics", "checkpoint"});
  CHECK(f.channel.bodies[1]["loss"] == 2.5);
  CHECK(f.channel.bodies[2]["path"] == f.folder / "checkpoints/step_00000001");
  CHECK(f.metrics().find("\"loss\":2.5") != std::string::npos);
}

TEST_CASE("the metrics are on the disk before the checkpoint that they lead to") {
  Fixture f;
  f.start();
  f.recorder.step(record_of(1, 2.5));
  Order order;
  {
    const FileOpsOverride use(order);
    f.recorder.save({.step = 1}, f.buffers.state());
    f.recorder.finish(false);
  }
  REQUIRE(order.find("sync metrics.jsonl") != order.log.end());
  CHECK(order.find("sync metrics.jsonl") < order.find("name step_00000001"));
}

TEST_CASE("metrics that do not reach the disk are a notice, and the checkpoint is saved") {
  Fixture f;
  f.start();
  FailingFileOps broken(0, EIO);
  {
    const FileOpsOverride use(broken);
    f.recorder.save({.step = 1}, f.buffers.state());
    f.recorder.finish(false);
  }
  CHECK(f.channel.kinds == std::vector<std::string>{"started", "notice", "checkpoint"});
  CHECK_THAT(f.channel.bodies[1]["text"].get<std::string>(),
             Catch::Contains("metrics.jsonl: Input/output error"));
}

TEST_CASE("a run that starts from another run's checkpoint keeps none of the metrics before") {
  Fixture f, other;
  for (Fixture* fixture : {&f, &other}) {
    fixture->start();
    fixture->recorder.step(record_of(1, 2.5));
    fixture->recorder.save({.step = 1}, fixture->buffers.state());
    fixture->recorder.finish(false);
  }
  const auto begin = [&](const std::string& checkpoint) {
    Recorder recorder(f.config, {.run_dir = f.folder.path()}, f.table, *f.saver, f.channel);
    recorder.begin({.step = 1}, checkpoint);
  };
  begin(f.folder / "checkpoints/step_00000001");
  CHECK(f.metrics().find("\"loss\":2.5") != std::string::npos);
  f.channel.bodies.clear();
  begin(other.folder / "checkpoints/step_00000001");
  CHECK(f.metrics().empty());
  REQUIRE(f.channel.bodies.size() == 2);
  CHECK(f.channel.bodies[0]["text"] ==
        "the run continues from a checkpoint of another branch: its own other checkpoints are "
        "renamed to step_00000001.superseded");
  CHECK_THAT(f.channel.bodies[1]["text"].get<std::string>(),
             Catch::EndsWith("metrics.superseded.jsonl"));
}

TEST_CASE("a run that goes back keeps the metrics of the branch that it leaves") {
  Fixture f;
  f.start();
  for (const std::int64_t step : {1, 2, 3}) {
    f.recorder.step(record_of(step, 2.5));
    f.recorder.save({.step = step}, f.buffers.state());
  }
  f.recorder.finish(false);
  const std::string all = f.metrics();
  const auto begin = [&] {
    Recorder recorder(f.config, {.run_dir = f.folder.path()}, f.table, *f.saver, f.channel);
    recorder.begin({.step = 1}, f.folder / "checkpoints/step_00000001");
  };
  struct Dies final : FileOps {  // when it sets the first checkpoint aside
    int rename(const char* from, const char* to) override {
      dead = dead || std::string(from).ends_with("step_00000002");
      errno = EIO;
      return dead ? -1 : FileOps::rename(from, to);
    }
    bool dead = false;
  } dies;
  {
    const FileOpsOverride use(dies);
    CHECK_THROWS_AS(begin(), Error);
  }
  begin();
  CHECK(std::count(all.begin(), all.end(), '\n') == 3);
  CHECK(read_file(f.folder / "metrics.superseded.jsonl", 1 << 20) == all);
  CHECK(all.starts_with(f.metrics()));
  CHECK_FALSE(f.metrics().empty());
  CHECK_FALSE(std::filesystem::exists(f.folder / "metrics.superseded-2.jsonl"));
}

TEST_CASE("what the next save removes is announced, and what metrics lack at the end") {
  Fixture f;
  f.start();
  f.recorder.save({.step = 1}, f.buffers.state());
  f.recorder.finish(false);
  f.recorder.begin({}, "");
  f.config.checkpoint.keep_last_n = 2;
  f.channel.bodies.clear();
  f.recorder.begin({}, "");
  REQUIRE(f.channel.bodies.size() == 1);
  CHECK(f.channel.bodies[0]["text"] ==
        "the next save removes step_00000001.superseded; to keep them: --checkpoint.keep_last_n 0");
  FailingFileOps full(0, ENOSPC, /*for_good=*/true);
  const FileOpsOverride use(full);
  f.recorder.step(record_of(1, 2.5));
  f.recorder.finish(false);
  CHECK_THAT(
      f.channel.bodies.back()["text"].get<std::string>(),
      Catch::Contains("metrics.jsonl is incomplete: 1 line could not be written (cannot write"));
}

TEST_CASE("the checkpoint that a run may have to go back to is not removed") {
  Fixture f;
  f.config.checkpoint.keep_last_n = 1;
  f.start();
  f.save(1);
  bool may_go_back = true;
  f.recorder.begin({.step = 1}, f.folder / "checkpoints/step_00000001",
                   [&] { return may_go_back; });
  const auto is_there = [&] { return path_exists(f.folder / "checkpoints/step_00000001"); };
  f.save(2);
  CHECK(is_there());
  may_go_back = false;
  f.save(3);
  CHECK_FALSE(is_there());
}

TEST_CASE("a checkpoint to which the job may have to go back outlives restarts") {
  Fixture f;
  f.config.checkpoint.keep_last_n = 1;
  f.start();
  f.save(1);
  const RunOptions options{.run_dir = f.folder.path(), .needed_steps = {1}};
  bool may_go_back = true;
  for (std::int64_t step : {2, 3, 4}) {
    Recorder next(f.config, options, f.table, *f.saver, f.channel);
    next.begin({.step = step - 1}, newest_checkpoint(f.folder.path())->path,
               [&] { return may_go_back; });
    may_go_back = step < 4;
    next.save({.step = step}, f.buffers.state());
    next.finish(false);
    CHECK(path_exists(f.folder / "checkpoints/step_00000001") == may_go_back);
  }
}

TEST_CASE("other ranks save their slices, and say nothing") {
  const TemporaryFolder folder;
  const Config config = tiny_config();
  const ParameterTable table = parameter_table(config.model, false);
  std::vector<EventChannel> channels(2);
  const auto errors = run_ranks(over_shared_memory, 2, [&](Communicator& comm) {
    EventChannel& channel = channels[static_cast<std::size_t>(comm.rank())];
    const FlatBuffers buffers(config, plan_rank(config, table, comm.rank(), comm.size()));
    Recorder recorder(config, {.run_dir = folder.path()}, table, comm, channel);
    recorder.begin({}, "");
    recorder.started({}, "", true);
    recorder.step(record_of(1, 2.5));
    FlatState flat = buffers.state();
    flat.slices = {comm.rank() == 0 ? Slice{{0, 64}} : Slice{{64, table.total}, 64}};
    recorder.save({.step = 1}, flat);
    recorder.finish(false);
  });
  CHECK(errors == std::vector<std::string>(2));
  CHECK(channels[0].kinds == std::vector<std::string>{"started", "metrics", "checkpoint"});
  CHECK(channels[1].kinds.empty());
  const FlatBuffers loaded(config, plan_rank(config, table));
  load_checkpoint(folder / "checkpoints/step_00000001", config.model, table, loaded.state());
}

TEST_CASE("a checkpoint whose name did not reach the disk is not announced") {
  Fixture f;
  f.start();
  struct Broken final : FileOps {
    int rename(const char* from, const char* to) override {
      const int done = FileOps::rename(from, to);
      broken = broken || std::string(to).ends_with("step_00000001");
      return done;
    }
    int fsync(int fd) override {
      if (!broken) return FileOps::fsync(fd);
      errno = EIO;
      return -1;
    }
    bool broken = false;
  } broken;
  {
    const FileOpsOverride use(broken);
    f.recorder.save({.step = 1}, f.buffers.state());
    CHECK_THROWS_WITH(f.recorder.finish(false), Catch::Contains("Input/output error"));
  }
  CHECK(std::filesystem::exists(f.folder / "checkpoints/step_00000001"));
  CHECK(f.channel.kinds == std::vector<std::string>{"started"});
}

TEST_CASE("a state that is not finite ends training") {
  Fixture f;
  f.start();
  f.buffers.parameters.as<float>()[2] = std::numeric_limits<float>::quiet_NaN();
  f.recorder.save({.step = 1}, f.buffers.state());
  try {
    f.recorder.step(record_of(2, 2.5));
    FAIL("it went on");
  } catch (const Error& error) {
    CHECK(error.exit_code() == 5);
    CHECK_THAT(error.message(), Catch::EndsWith(" is nan"));
  }
}

TEST_CASE(
    "a checkpoint that cannot be written is a notice while training, and an error at the end") {
  Fixture f;
  f.start();
  f.recorder.save({.step = 1}, f.buffers.state());
  FailingFileOps full(5);
  {
    const FileOpsOverride use(full);
    f.recorder.save({.step = 2}, f.buffers.state());
  }
  f.recorder.step(record_of(3, 2.5));
  CHECK(f.channel.kinds == std::vector<std::string>{"started", "checkpoint", "metrics", "notice"});
  CHECK_THAT(f.channel.bodies.back()["text"].get<std::string>(),
             Catch::Contains("No space left on device") && Catch::EndsWith("training continues"));
  CHECK(std::filesystem::exists(f.folder / "checkpoints/step_00000001"));

  FailingFileOps full_again(5);
  {
    const FileOpsOverride use(full_again);
    f.recorder.save({.step = 4}, f.buffers.state());
  }
  CHECK_THROWS_WITH(f.recorder.finish(false), Catch::Contains("step_00000004"));
}

TEST_CASE(
    "a folder for the copy that cannot be used is an error at the start, and a notice later") {
  Fixture f;
  const std::string there = f.folder / "copy";
  put_file(there, "in the way");
  f.config.checkpoint.copy_to = there;
  CHECK_THROWS_WITH(f.start(), Catch::Contains(there));

  Recorder restarted(f.config, {.run_dir = f.folder.path(), .is_restart = true}, f.table, *f.saver,
                     f.channel);
  restarted.begin({}, "");
  restarted.started({}, "", true);
  restarted.save({.step = 1}, f.buffers.state());
  restarted.finish(true);
  CHECK(f.channel.kinds == std::vector<std::string>{"started", "checkpoint", "notice", "notice"});
  CHECK_THAT(f.channel.bodies[2]["text"].get<std::string>(),
             Catch::Contains("lacks what was saved last, until the next save"));

  std::filesystem::remove(there);
  restarted.save({.step = 2}, f.buffers.state());
  restarted.finish(false);
  CHECK(std::filesystem::exists(there + "/checkpoints/step_00000002"));
}
