#include <catch2/catch.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/base/file_ops.h"
#include "hgtrain/checkpoint/checkpoint.h"
#include "hgtrain/checkpoint/safetensors.h"

#include "support/failing_file_ops.h"
#include "support/temporary_folder.h"
#include "tiny_run.h"

using namespace hgt;

namespace {

std::vector<std::string> names_in(const std::string& folder) {
  return list_folder(folder);
}

}  // namespace

TEST_CASE("a state with an owner is not copied, and let go when it is written") {
  const TemporaryFolder folder;
  const auto run = std::make_shared<TinyRun>();
  run->at(4);
  const auto writer = run->writer(folder.path(), 0, true);
  writer->save(run->state, run->flat(), run);
  REQUIRE_FALSE(writer->wait());
  CHECK(run.use_count() == 1);
  CHECK(TinyRun().holds(list_checkpoints(folder.path()).front(), 4));
}

TEST_CASE("a saved checkpoint is an HF folder with the run's state beside it") {
  TemporaryFolder folder;
  TinyRun run;
  write_new_file(folder / "tokenizer.json", "{}");
  write_new_file(folder / "unrelated.txt", "");
  CheckpointWriter::Options options;
  options.run_dir = folder / "run";
  options.tokenizer_folder = folder.path();
  const auto writer = CheckpointWriter::create(run.model, run.table, options);
  run.at(100);
  writer->save(run.state, run.flat());
  REQUIRE_FALSE(writer->wait());

  CHECK(names_in(folder / "run/checkpoints") ==
        std::vector<std::string>{"latest", "step_00000100"});
  CHECK(read_file(folder / "run/checkpoints/latest", 100) == "step_00000100\n");
  CHECK(names_in(folder / "run/checkpoints/step_00000100") ==
        std::vector<std::string>{"config.json", "generation_config.json", "manifest.json",
                                 "model.safetensors", "optimizer.safetensors", "tokenizer.json",
                                 "trainer_state.json"});
  CHECK(list_checkpoints(folder / "run") ==
        std::vector<std::string>{folder / "run/checkpoints/step_00000100"});
  CHECK(run.holds(folder / "run/checkpoints/step_00000100", 100));
}

TEST_CASE("what is written is the state at save(), whatever becomes of the buffers meanwhile") {
  TemporaryFolder folder;
  TinyRun run;
  const auto writer = run.writer(folder.path(), 0, true);
  for (std::int64_t step = 1; step <= 5; ++step) {
    run.at(step);
    writer->save(run.state, run.flat());
    run.at(1000 + step);
  }
  REQUIRE_FALSE(writer->wait());
  const auto folders = list_checkpoints(folder.path());
  REQUIRE(folders.size() == 5);
  for (std::int64_t step = 1; step <= 5; ++step)
    CHECK(run.holds(folders[static_cast<std::size_t>(5 - step)], step));
}

TEST_CASE("only the last n checkpoints are kept") {
  TemporaryFolder folder;
  TinyRun run;
  const auto writer = run.writer(folder.path(), 2);
  for (const std::int64_t step : {10, 20, 30, 30}) {
    run.at(step);
    writer->save(run.state, run.flat());
  }
  REQUIRE_FALSE(writer->wait());
  CHECK(names_in(folder / "checkpoints") ==
        std::vector<std::string>{"latest", "step_00000020", "step_00000030"});
}

TEST_CASE("a run that went back sets the checkpoints of the time it left aside") {
  TemporaryFolder folder;
  TinyRun run;
  const auto save = [&](std::int64_t step, std::int64_t keep) {
    const auto writer = run.writer(folder.path(), keep);
    run.at(step);
    writer->save(run.state, run.flat());
    REQUIRE_FALSE(writer->wait());
  };
  for (const std::int64_t step : {10, 20, 30}) save(step, 0);
  save(20, 0);
  CHECK(names_in(folder / "checkpoints") ==
        std::vector<std::string>{"latest", "step_00000010", "step_00000020",
                                 "step_00000020.superseded", "step_00000030.superseded"});
  CHECK(list_checkpoints(folder.path()).front() == folder / "checkpoints/step_00000020");
  save(20, 0);
  save(30, 1);
  CHECK(names_in(folder / "checkpoints") == std::vector<std::string>{"latest", "step_00000030"});
}

TEST_CASE("weights larger than a shard are split as HF does, and read back") {
  TemporaryFolder folder;
  TinyRun run;
  CheckpointWriter::Options options;
  options.run_dir = folder.path();
  options.max_shard_bytes = 130;  // the embedding takes 128
  const auto writer = CheckpointWriter::create(run.model, run.table, options);
  run.at(7);
  writer->save(run.state, run.flat());
  REQUIRE_FALSE(writer->wait());
  const std::string path = folder / "checkpoints/step_00000007";
  CHECK(run.holds(path, 7));
  const auto second = SafetensorsFile::open(path + "/model-00002-of-00002.safetensors");
  CHECK(second.tensors().at(0).name == "transformer.ln_f.weight");
  CHECK_THAT(read_file(path + "/model.safetensors.index.json", 10000),
             Catch::Contains(R"("transformer.wte.weight": "model-00001-of-00002.safetensors")"));
}

TEST_CASE("whatever a killed run left unfinished is removed at the start") {
  TemporaryFolder folder;
  TinyRun run;
  make_folders(folder / "checkpoints/step_00000100.tmp-0123abcd");
  write_new_file(folder / "checkpoints/step_00000100.tmp-0123abcd/config.json", "{");
  CHECK(list_checkpoints(folder.path()).empty());
  run.writer(folder.path());
  CHECK(names_in(folder / "checkpoints").empty());
}

TEST_CASE("only folders named after a step that have a manifest are checkpoints") {
  TemporaryFolder folder;
  CHECK(list_checkpoints(folder.path()).empty());
  for (const char* name : {"step_00000001", "step_2", "step_00000003x", "step_00000004"})
    make_folders(folder / ("checkpoints/" + std::string(name)));
  for (const char* name : {"step_2", "step_00000003x", "step_00000004"})
    write_new_file(folder / ("checkpoints/" + std::string(name) + "/manifest.json"), "");
  CHECK(list_checkpoints(folder.path()) ==
        std::vector<std::string>{folder / "checkpoints/step_00000004"});
}

TEST_CASE("an existing run folder that cannot be written to is an error at the start") {
  TemporaryFolder folder;
  write_new_file(folder / "checkpoints", "a file");
  TinyRun run;
  CHECK_THROWS_WITH(run.writer(folder.path()), Catch::Contains("File exists"));
}
