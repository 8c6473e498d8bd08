#include "hgtrain/config/run_checkpoints.h"

#include <filesystem>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/xxh3.h"

#include "support/temporary_folder.h"

using namespace hgt;

namespace {

/// A run folder with what passes for checkpoints of these steps.
struct SavedRun {
  TemporaryFolder folder;
  explicit SavedRun(std::initializer_list<std::int64_t> steps) {
    for (const std::int64_t step : steps) {
      make_folders(path(step));
      write_new_file(path(step) + "/manifest.json", "{}");
    }
  }
  std::string path(std::int64_t step) const { return folder / ("checkpoints/" + step_name(step)); }
  std::vector<std::string> list() const { return list_checkpoints(folder.path()); }
};

}  // namespace

TEST_CASE("the newest checkpoint is the one of the highest step, even if `latest` names another") {
  const SavedRun run{9, 12};
  make_folders(run.folder / "checkpoints/step_00000013");  // no manifest
  make_folders(run.folder / "checkpoints/step_00000014.superseded");
  make_folders(run.folder / "checkpoints/latest");
  const auto saved = newest_checkpoint(run.folder.path());
  REQUIRE(saved);
  CHECK(saved->path == run.path(12));
  CHECK(saved->step == 12);
  CHECK_FALSE(newest_checkpoint(run.folder / "checkpoints"));
}

TEST_CASE("folders of the branch without a manifest are listed apart") {
  const SavedRun run{10, 20};
  make_folders(run.path(15));
  make_folders(run.path(30));
  make_folders(run.folder / "checkpoints/step_00000040.superseded");
  const std::string& dir = run.folder.path();
  CHECK(list_incomplete(dir) == std::vector{run.path(30), run.path(15)});
  begin_branch(dir, run.path(20));
  CHECK(list_incomplete(dir) == std::vector{run.path(15)});
}

TEST_CASE("a run that has saved checkpoints, of which none is there, does not begin again") {
  const SavedRun run{10};
  const std::string& dir = run.folder.path();
  write_new_file(dir + "/metrics.jsonl", "{}\n");
  require_whole_checkpoint(dir);
  remove_tree(run.path(10));
  CHECK_THROWS_WITH(require_whole_checkpoint(dir), dir + " has made steps, but " + dir +
                                                       "/checkpoints has no checkpoint any more");
  begin_branch(dir, "");  // a run that failed before its first save
  require_whole_checkpoint(dir);
  forget_origin(dir);
  remove_file(dir + "/metrics.jsonl");
  require_whole_checkpoint(dir);
  remove_tree(dir + "/checkpoints");
  write_new_file(dir + "/checkpoints", "");
  CHECK_THROWS_WITH(require_whole_checkpoint(dir),
                    Catch::Contains("/checkpoints: Not a directory"));
}

TEST_CASE("the step of a checkpoint is its manifest's, if that can be read") {
  const SavedRun run{10};
  write_file_atomically(run.path(10) + "/manifest.json", R"({"step": 7})");
  CHECK(saved_step(run.path(10)) == 7);
  for (const char* damaged : {"{", "[]", "{}", R"({"step": "7"})"}) {
    write_file_atomically(run.path(10) + "/manifest.json", damaged);
    CHECK_FALSE(saved_step(run.path(10)));
  }
  CHECK_FALSE(saved_step(run.path(11)));
  remove_file(run.path(10) + "/manifest.json");
  REQUIRE(mkfifo((run.path(10) + "/manifest.json").c_str(), 0666) == 0);
  CHECK_FALSE(saved_step(run.path(10)));
}

TEST_CASE("a branch that has saved nothing has the checkpoints up to its beginning") {
  const SavedRun run{10, 20, 30}, other{5};
  const std::string& dir = run.folder.path();
  CHECK_FALSE(read_origin(dir));
  const BranchOrigin origin = begin_branch(dir, run.path(20) + "/");
  CHECK(origin.checkpoint == "step_00000020");
  CHECK(origin_folder(dir, *read_origin(dir)) == run.path(20));
  CHECK(run.list() == std::vector{run.path(20), run.path(10)});
  begin_branch(dir, other.path(5));
  CHECK(origin_folder(dir, *read_origin(dir)) == other.path(5));
  CHECK(run.list().empty());
  begin_branch(dir, "");
  CHECK(read_origin(dir)->checkpoint.empty());
  CHECK(run.list().empty());
  forget_origin(dir);
  CHECK(run.list().size() == 3);
  CHECK(begin_branch(dir, run.path(11)).checkpoint == "step_00000011");  // it is gone
  CHECK(run.list() == std::vector{run.path(10)});
}

TEST_CASE("a branch's config is put in place, if necessary by the next start after a crash") {
  const SavedRun run{10};
  const std::string& dir = run.folder.path();
  const auto write = [&](const std::string& end, const std::string& text) {
    write_file_atomically(dir + "/resolved" + end, text);
    write_file_atomically(dir + "/config" + end, text);
  };
  const auto text = [&] {
    return read_file(dir + "/config.json", 100) + read_file(dir + "/resolved.json", 100);
  };
  write(".json", "old");
  write(".next.json", "new");
  begin_branch(dir, run.path(10));
  CHECK(text() == "newnew");
  CHECK_FALSE(std::filesystem::exists(dir + "/config.next.json"));

  write(".next.json", "newer");  // of a job that never began
  put_config_in_place(dir);
  CHECK(text() == "newnew");
  for (const bool renamed_one : {false, true}) {  // crashes before the renames
    write(".json", "old");
    write(".next.json", "new");
    if (renamed_one) rename_path(dir + "/config.next.json", dir + "/config.json");
    put_config_in_place(dir);
    CHECK(text() == "newnew");
  }
}

TEST_CASE("a damaged origin is an error, because the branch is then unknown") {
  const std::string hash = "0123456789abcdef";
  CHECK(parse_origin(hash + "\n/a b/\n/step_1\n").checkpoint == "/a b/\n/step_1");
  CHECK(parse_origin(hash + "\n\n").config_hash == 0x0123456789abcdef);
  for (const std::string& damaged : {std::string(), hash, hash + "\n", hash + "\nstep_1\n",
                                     hash + "\n/a", "x" + hash.substr(1) + "\n\n",
                                     hash + "\n../step_00000001\n", "-" + hash.substr(1) + "\n\n"})
    CHECK_THROWS_AS(parse_origin(damaged), Error);
  const SavedRun run{10};
  write_new_file(run.folder / "checkpoints/origin", "garbage");
  CHECK_THROWS_WITH(run.list(), Catch::Contains("the file is damaged"));
}

TEST_CASE(
    "a run folder, RUN@latest and RUN@best stand for checkpoints, other paths for themselves") {
  const SavedRun run{10, 20}, empty{};
  const std::string& dir = run.folder.path();
  CHECK(checkpoint_folder(dir) == run.path(20));
  CHECK(checkpoint_folder(dir + "@latest") == run.path(20));
  write_file_atomically(dir + "/checkpoints/latest", "step_00000010\n");  // a file with a name
  CHECK(checkpoint_folder(dir + "/checkpoints/latest") == run.path(10));
  CHECK_THROWS_WITH(checkpoint_folder(dir + "@best"), Catch::Contains("has no best checkpoint"));
  for (const char* wrong : {"", "step_00000011\n", "../checkpoints\n"}) {
    write_file_atomically(dir + "/checkpoints/best", wrong);
    CHECK_THROWS_AS(checkpoint_folder(dir + "@best"), Error);
  }
  write_file_atomically(dir + "/checkpoints/best", "step_00000010\n");
  CHECK(checkpoint_folder(dir + "@best") == run.path(10));
  CHECK(checkpoint_folder(run.path(10)) == run.path(10));
  for (const std::string& itself : {dir + "@worst", std::string("none@best"), std::string("none")})
    CHECK(checkpoint_folder(itself) == itself);
  make_folders(empty.folder / "checkpoints");
  CHECK_THROWS_WITH(checkpoint_folder(empty.folder.path()),
                    Catch::Contains("has no checkpoint yet"));
  make_folders(dir + "@best");
  CHECK(checkpoint_folder(dir + "@best") == dir + "@best");
  std::filesystem::remove(dir + "@best");
}

TEST_CASE("a checkpoint's config.json must be the one that was saved") {
  const TemporaryFolder folder;
  check_model_config(folder.path(), "{}");  // no checkpoint
  write_new_file(folder / "manifest.json",
                 fmt::format(R"({{"files": {{"config.json": {{"xxh3": "{:016x}"}}}}}})",
                             xxh3(std::string_view("{}"))));
  check_model_config(folder.path(), "{}");
  CHECK_THROWS_WITH(check_model_config(folder.path(), "{ }"),
                    Catch::Contains("config.json is damaged"));
}
