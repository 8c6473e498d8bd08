#include "run_folder.h"

#include <cerrno>
#include <fstream>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file_ops.h"

#include "detached_run.h"
#include "support/temporary_folder.h"

using namespace hgt;

TEST_CASE("a run folder is claimed by one launcher at a time") {
  const TemporaryFolder folder;
  const RunFolder claimed = claim_run_folder(folder.path(), false);
  CHECK_THROWS_WITH(claim_run_folder(folder.path(), false),
                    Catch::Contains("is in use by another hgtrain"));
}

TEST_CASE("a lock that a killed launcher holds for another moment is waited for") {
  class HeldForAMoment : public FileOps {
    int flock(int fd, int operation) override {
      if (++calls > 2) return FileOps::flock(fd, operation);
      errno = EWOULDBLOCK;
      return -1;
    }
    int calls = 0;
  } held;
  const TemporaryFolder folder;
  const FileOpsOverride override_ops(held);
  claim_run_folder(folder.path(), false);
}

TEST_CASE("a folder that is not a run folder is refused, and gets no lock file") {
  const TemporaryFolder folder;
  write_new_file(folder / "notes.txt", "mine");
  CHECK_THROWS_WITH(claim_run_folder(folder.path(), false),
                    folder.path() + " is neither empty nor a run folder");
  CHECK(list_folder(folder.path()) == std::vector<std::string>{"notes.txt"});
}

TEST_CASE(
    "a folder whose run any machine has started on a host is refused, and gets no lock file") {
  const TemporaryFolder folder;
  write_detached_run(folder.path(), {.name = "a"}, "1f");
  for (const bool is_from_here : {true, false}) {
    if (!is_from_here)
      std::ofstream(folder / "detached.json")
          << R"({"host": "a", "user": "", "ssh_port": 0, "folder": "/", "run": "r",
                 "from": "elsewhere", "started_at": "", "detach_id": "1f"})";
    for (const bool resume : {false, true})
      CHECK_THROWS_WITH(claim_run_folder(folder.path(), resume),
                        folder.path() + " has a run that --detach has started on host a");
    CHECK(list_folder(folder.path()) == std::vector<std::string>{"detached.json"});
  }
}

TEST_CASE("a model's folder is not a run folder, although it has a config.json") {
  const TemporaryFolder folder;
  for (const char* name : {"config.json", "model.safetensors"})
    write_new_file(folder / name, "mine");
  for (const bool resume : {false, true})
    CHECK_THROWS_WITH(claim_run_folder(folder.path(), resume),
                      folder.path() + " is neither empty nor a run folder");
  CHECK(read_file(folder / "config.json", 100) == "mine");
}

TEST_CASE("what a resumed run changes is listed by key, and a list of numbers is one value") {
  const auto split = [](nlohmann::json layers) {
    return nlohmann::json{{"parallelism", {{"pipeline_layer_split", std::move(layers)}}},
                          {"data", {{"train_data_path", {"a"}}}}};
  };
  CHECK(config_changes(split({3, 1}), split({2, 2})) ==
        std::vector<std::string>{"parallelism.pipeline_layer_split: [2,2], was [3,1]"});
  CHECK(config_changes(split("balanced"), split({2, 2})) ==
        std::vector<std::string>{"parallelism.pipeline_layer_split: [2,2], was \"balanced\""});
  CHECK(config_changes(split({2, 2}), split({2, 2})).empty());
  nlohmann::json moved = split({2, 2});
  moved["data"]["train_data_path"][0] = "b";
  CHECK(config_changes(split({2, 2}), moved) ==
        std::vector<std::string>{R"(data.train_data_path: ["b"], was ["a"])"});
}

TEST_CASE("of fp16's keys, those are listed that have an effect") {
  const auto half = [](bool fp16, int power) {
    return nlohmann::json{{"fp16", {{"enabled", fp16}, {"initial_scale_power", power}}}};
  };
  CHECK(config_changes(half(true, 10), half(false, 16)) ==
        std::vector<std::string>{"fp16.enabled: false, was true"});
  CHECK(config_changes(half(true, 60), half(true, 59)) ==
        std::vector<std::string>{"fp16.initial_scale_power: 59, was 60 (a checkpoint whose weights "
                                 "have changed keeps its loss scale)"});
}

TEST_CASE("a resumed run keeps its model and its batches, but may read the data elsewhere") {
  const nlohmann::json run{{"model", {{"n_layer", 1}, {"init", "a"}}},
                           {"training", {{"seed", 1}, {"train_iters", 10}}},
                           {"data", {{"train_data_path", {"a"}}, {"seed", 1}}}};
  const auto change = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json now = run;
    now[nlohmann::json::json_pointer(pointer)] = value;
    require_same_training(run, now);
  };
  CHECK_NOTHROW(change("/model/init", "b"));
  CHECK_NOTHROW(change("/training/train_iters", 20));
  CHECK_NOTHROW(change("/data/train_data_path", {"b"}));
  CHECK_NOTHROW(change("/data/train_data_path", {"b", "c"}));
  CHECK_THROWS_WITH(change("/model/n_layer", 2),
                    "a resumed run cannot change these keys:\n    model.n_layer: 2, was 1");
  CHECK_THROWS_WITH(change("/data/seed", 2),
                    "a resumed run cannot change these keys:\n    data.seed: 2, was 1");
}

TEST_CASE("a damaged resolved.json is named, and a run without one can be resumed") {
  const TemporaryFolder folder;
  write_new_file(folder / "run.json", "{}");
  write_new_file(folder / "metrics.jsonl", "a step");
  CHECK(claim_run_folder(folder.path(), true).holds_run);
  CHECK_FALSE(claim_run_folder(folder.path(), true).previous_config);
  for (const char* text : {"", "{", "[]", "5", "null"}) {
    write_file_atomically(folder / "resolved.json", text);
    try {
      claim_run_folder(folder.path(), true);
      FAIL("it must be refused");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::kData);
      CHECK(e.message() == folder / "resolved.json is damaged: it is not a JSON object");
    }
  }
  write_file_atomically(folder / "resolved.json", R"({"train_batch_size": 8})");
  CHECK(claim_run_folder(folder.path(), true).previous_config.value()["train_batch_size"] == 8);
  CHECK(batch_size_of_run(folder.path()) == 8);
}

TEST_CASE("a lock that the file system refuses is not called in use") {
  class NoLocks : public FileOps {
    int flock(int, int) override {
      errno = ENOLCK;
      return -1;
    }
  } no_locks;
  const TemporaryFolder folder;
  const FileOpsOverride override_ops(no_locks);
  try {
    claim_run_folder(folder.path(), false);
    FAIL("it must be refused");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kConfig);
    CHECK(e.message() == "cannot lock " + folder / ".lock: No locks available");
  }
}
