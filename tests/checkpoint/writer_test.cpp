#include <filesystem>
#include <limits>

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

TEST_CASE("a state with an owner is not copied, and is released when it is written") {
  const TemporaryFolder folder;
  const auto run = std::make_shared<TinyRun>();
  run->at(4);
  const auto writer = run->writer(folder.path(), 0, true);
  writer->save(run->state, run->flat(), run);
  REQUIRE_FALSE(writer->wait());
  CHECK(run.use_count() == 1);
  CHECK(TinyRun().holds(list_checkpoints(folder.path()).front(), 4));
}

TEST_CASE("a saved checkpoint is an HF folder that also has the run's state") {
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

TEST_CASE("what is written is the state at save(), even if the buffers change meanwhile") {
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

TEST_CASE("a run that goes back renames the checkpoints of the branch that it leaves at once") {
  TemporaryFolder folder;
  TinyRun run;
  const auto save_from = [&](const std::string& origin, std::initializer_list<std::int64_t> steps,
                             std::int64_t keep) {
    const auto writer = run.writer_from(origin, folder.path(), keep);
    for (const std::int64_t step : steps) {
      run.at(step);
      writer->save(run.state, run.flat());
    }
    REQUIRE_FALSE(writer->wait());
  };
  const std::string ten = folder / "checkpoints/step_00000010";
  save_from("", {10, 20, 30}, 0);
  save_from(ten, {}, 0);
  CHECK(names_in(folder / "checkpoints") ==
        std::vector<std::string>{"latest", "origin", "step_00000010", "step_00000020.superseded",
                                 "step_00000030.superseded"});
  CHECK(read_file(folder / "checkpoints/latest", 100) == "step_00000010\n");
  CHECK(list_checkpoints(folder.path()) == std::vector<std::string>{ten});
  save_from(ten + "/", {20}, 0);
  CHECK(list_checkpoints(folder.path()).front() == folder / "checkpoints/step_00000020");
  save_from(ten, {}, 0);
  CHECK(std::filesystem::exists(folder / "checkpoints/step_00000020.superseded-2"));
  save_from(ten, {30}, 1);
  CHECK(names_in(folder / "checkpoints") == std::vector<std::string>{"latest", "step_00000030"});
}

TEST_CASE("a run that starts from another run's checkpoint, or anew, has none of its own before") {
  TemporaryFolder folder, other;
  TinyRun run;
  run.at(7);
  run.writer(folder.path())->save(run.state, run.flat());
  run.writer(other.path())->save(run.state, run.flat());
  const std::string elsewhere = other / "checkpoints/step_00000007";
  for (const std::string& origin : {elsewhere, std::string()}) {
    run.writer_from(origin, folder.path());
    CHECK(list_checkpoints(folder.path()).empty());
    CHECK(origin_folder(folder.path(), read_origin(folder.path()).value()) == origin);
    CHECK_FALSE(std::filesystem::exists(folder / "checkpoints/latest"));
  }
  CHECK(run.holds(folder / "checkpoints/step_00000007.superseded", 7));
  // One that was set aside is where it starts from: it stays until a checkpoint is saved.
  const std::string aside = folder / "checkpoints/step_00000007.superseded";
  run.writer_from(aside, folder.path(), 1);
  CHECK(run.holds(aside, 7));
  const auto writer = run.writer_from(aside, folder.path(), 1);
  run.at(8);
  writer->save(run.state, run.flat());
  CHECK(names_in(folder / "checkpoints") == std::vector<std::string>{"latest", "step_00000008"});
}

TEST_CASE("a checkpoint is reported once it is durable, by the thread that wrote it") {
  TemporaryFolder folder;
  TinyRun run;
  CheckpointWriter::Options options;
  options.run_dir = folder.path();
  std::vector<std::pair<std::string, std::int64_t>> reported;
  options.on_saved = [&](const std::string& path, std::int64_t step) {
    CHECK(read_file(folder / "checkpoints/latest", 100) == step_name(step) + "\n");
    reported.emplace_back(path, step);
  };
  const auto writer = CheckpointWriter::create(run.model, run.table, options);
  for (const std::int64_t step : {1, 2, 2}) {
    run.at(step);
    writer->save(run.state, run.flat());
  }
  REQUIRE_FALSE(writer->wait());
  CHECK(reported == decltype(reported){{folder / "checkpoints/step_00000001", 1},
                                       {folder / "checkpoints/step_00000002", 2}});
}

namespace {
CheckpointWriter::Options keeping_best(const std::string& run_dir) {
  CheckpointWriter::Options options;
  options.run_dir = run_dir;
  options.keep_best = true;
  return options;
}
}  // namespace

TEST_CASE(
    "the best checkpoint stays, and those that were saved only for being the best are removed") {
  TemporaryFolder folder;
  TinyRun run;
  CheckpointWriter::Options options = keeping_best(folder.path());
  const auto begin = [&](const std::string& origin, std::int64_t keep, std::int64_t best) {
    options.origin = origin;
    options.keep_last_n = keep;
    options.best_eval_step = best;
    return CheckpointWriter::create(run.model, run.table, options);
  };
  const auto save = [&](CheckpointWriter& writer, std::int64_t step, std::int64_t best,
                        CheckpointWriter::Reason reason) {
    run.at(step);
    run.state.best_eval_step = best;
    writer.save(run.state, run.flat(), nullptr, reason);
    REQUIRE_FALSE(writer.wait());
  };
  using Reason = CheckpointWriter::Reason;
  using Names = std::vector<std::string>;
  auto writer = begin("", 0, 0);
  save(*writer, 1, 1, Reason::kBest);
  save(*writer, 2, 2, Reason::kDue);
  save(*writer, 3, 3, Reason::kBest);
  save(*writer, 4, 3, Reason::kDue);
  CHECK(names_in(folder / "checkpoints") ==
        Names{"best", "latest", "step_00000002", "step_00000003", "step_00000004"});
  CHECK(checkpoint_folder(folder.path() + "@best") == folder / "checkpoints/step_00000003");
  writer = begin(folder / "checkpoints/step_00000004", 1, 3);
  save(*writer, 5, 3, Reason::kDue);
  CHECK(names_in(folder / "checkpoints") ==
        Names{"best", "latest", "step_00000003", "step_00000005"});
  writer = begin(folder / "checkpoints/step_00000003", 1, 3);
  CHECK(checkpoint_folder(folder.path() + "@best") == folder / "checkpoints/step_00000003");
  writer = begin(folder / "checkpoints/step_00000003", 1, 2);  // whose checkpoint is gone
  CHECK_FALSE(std::filesystem::exists(folder / "checkpoints/best"));
}

TEST_CASE("a checkpoint that was saved only for being the best is removed after a restart, too") {
  TemporaryFolder folder;
  TinyRun run;
  CheckpointWriter::Options options = keeping_best(folder.path());
  const auto save = [&](std::int64_t step, CheckpointWriter::Reason reason) {
    const auto writer = CheckpointWriter::create(run.model, run.table, options);
    run.at(step);
    run.state.best_eval_step = options.best_eval_step = step;
    writer->save(run.state, run.flat(), nullptr, reason);
    REQUIRE_FALSE(writer->wait());
    options.origin = folder / "checkpoints/" + step_name(step);
  };
  using Reason = CheckpointWriter::Reason;
  save(1, Reason::kDue);
  save(2, Reason::kBest);
  save(3, Reason::kBest);
  CHECK(names_in(folder / "checkpoints") ==
        std::vector<std::string>{"best", "latest", "step_00000001", "step_00000003"});
  options.keep_best = false;
  save(4, Reason::kDue);
  CHECK(std::filesystem::exists(folder / "checkpoints/step_00000003"));
}

TEST_CASE("the best checkpoint of a run is not lost if it is resumed without keep_best") {
  TemporaryFolder folder;
  TinyRun run;
  CheckpointWriter::Options options;
  options.run_dir = folder.path();
  options.keep_best = true;
  options.keep_last_n = 1;
  const auto save = [&](std::int64_t step, std::int64_t best) {
    const auto writer = CheckpointWriter::create(run.model, run.table, options);
    run.at(step);
    run.state.best_eval_step = options.best_eval_step = best;
    writer->save(run.state, run.flat());
    REQUIRE_FALSE(writer->wait());
    options.origin = folder / "checkpoints/" + step_name(step);
  };
  save(1, 1);
  options.keep_best = false;
  save(2, 1);
  save(3, 1);
  CHECK(checkpoint_folder(folder.path() + "@best") == folder / "checkpoints/step_00000001");
  save(4, 4);
  CHECK(names_in(folder / "checkpoints") ==
        std::vector<std::string>{"best", "latest", "step_00000004"});
  CHECK(checkpoint_folder(folder.path() + "@best") == folder / "checkpoints/step_00000004");
}

TEST_CASE("the writer says which checkpoints are superseded") {
  TemporaryFolder folder;
  TinyRun run;
  for (const std::int64_t step : {10, 20, 30}) {
    run.at(step);
    run.writer(folder.path())->save(run.state, run.flat());
  }
  using Names = std::vector<std::string>;
  CHECK(run.writer(folder.path())->left().empty());
  CHECK(run.writer(folder.path())->superseded().empty());
  const auto writer = run.writer_from(folder / "checkpoints/step_00000020", folder.path());
  CHECK(writer->left() == Names{"step_00000030.superseded"});
  run.at(30);
  writer->save(run.state, run.flat());
  const auto later = run.writer_from(folder / "checkpoints/step_00000020", folder.path());
  CHECK(later->left() == Names{"step_00000030.superseded-2"});
  for (const char* name : {"step_00000030.superseded.mine", "step_00000030.superseded-x",
                           "step_30.superseded", "step_00000030.supersededs"})
    make_folders(folder / ("checkpoints/" + std::string(name)));
  CHECK(later->superseded() == Names{"step_00000030.superseded", "step_00000030.superseded-2"});
}

TEST_CASE("a state that is not finite is not saved") {
  TemporaryFolder folder;
  TinyRun run;
  const auto writer = run.writer(folder.path());
  run.at(1);
  writer->save(run.state, run.flat());
  REQUIRE_FALSE(writer->wait());
  for (std::vector<float>* const buffer : {&run.parameters, &run.exp_avg_sq}) {
    run.at(2);
    (*buffer)[3] = -std::numeric_limits<float>::infinity();
    writer->save(run.state, run.flat());
    const auto error = writer->wait();
    REQUIRE(error);
    CHECK(error->exit_code() == 5);
    CHECK_THAT(error->message(), Catch::Contains("element 3 of ") &&
                                     Catch::EndsWith("transformer.wte.weight is -inf"));
  }
  CHECK(names_in(folder / "checkpoints") == std::vector<std::string>{"latest", "step_00000001"});
}

TEST_CASE("a folder in the place of latest is set aside") {
  TemporaryFolder folder;
  make_folders(folder / "checkpoints/latest");
  write_new_file(folder / "checkpoints/latest/notes", "mine");
  TinyRun run;
  const auto writer = run.writer(folder.path(), 1);
  run.at(1);
  writer->save(run.state, run.flat());
  REQUIRE_FALSE(writer->wait());
  CHECK(read_file(folder / "checkpoints/latest", 100) == "step_00000001\n");
  CHECK(read_file(folder / "checkpoints/latest.superseded/notes", 100) == "mine");
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

TEST_CASE("everything that a killed run left unfinished is removed at the start") {
  TemporaryFolder folder;
  TinyRun run;
  make_folders(folder / "checkpoints/step_00000100.tmp-0123abcd");
  write_new_file(folder / "checkpoints/step_00000100.tmp-0123abcd/config.json", "{");
  CHECK(list_checkpoints(folder.path()).empty());
  run.writer(folder.path());
  CHECK(names_in(folder / "checkpoints") == std::vector<std::string>{"origin"});
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
  CHECK_THROWS_WITH(run.writer(folder.path()), Catch::Contains("Not a directory"));
}
