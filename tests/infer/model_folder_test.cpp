#include "hgtrain/infer/model_folder.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/file.h"

#include "support/failing_stat.h"
#include "support/temporary_folder.h"

using namespace hgt;

TEST_CASE("a run folder means its newest checkpoint, any other folder itself") {
  TemporaryFolder folder;
  for (const char* step : {"step_00000001", "step_00000002"}) {
    make_folders(folder / ("run/checkpoints/" + std::string(step)));
    write_new_file(folder / ("run/checkpoints/" + std::string(step) + "/manifest.json"), "");
    write_new_file(folder / ("run/checkpoints/" + std::string(step) + "/config.json"), "");
  }
  write_new_file(folder / "run/config.json", "");
  write_new_file(folder / "run/checkpoints/best", "step_00000001\n");
  CHECK(find_model_folder(folder / "run@best") == folder / "run/checkpoints/step_00000001");
  CHECK(find_model_folder(folder / "run@latest") == folder / "run/checkpoints/step_00000002");
  CHECK(find_model_folder(folder / "run") == folder / "run/checkpoints/step_00000002");
  CHECK(find_model_folder(folder / "run/checkpoints/step_00000001") ==
        folder / "run/checkpoints/step_00000001");
}

namespace {

std::string hint_of(const std::string& path) {
  try {
    find_model_folder(path);
  } catch (const Error& e) {
    return e.hint();
  }
  return "";
}

}  // namespace

TEST_CASE("a folder that is not a model folder is refused with what it lacks") {
  TemporaryFolder folder;
  make_folders(folder / "run/checkpoints");
  using Catch::Contains;
  CHECK_THROWS_WITH(find_model_folder(folder / "none"), Contains("is not a folder"));
  CHECK(hint_of(folder / "gpt2.json") == "use --model runs/gpt2, the run of this config");
  CHECK_THROWS_WITH(find_model_folder(folder / "run"), Contains("has no checkpoint yet"));
  CHECK_THROWS_WITH(find_model_folder(folder.path()), Contains("has no config.json"));
}

TEST_CASE(
    "a checkpoint without config.json is damaged, and a disk that fails is not reported as a "
    "missing file") {
  TemporaryFolder folder;
  write_new_file(folder / "manifest.json", "");
  const auto error_of = [&] {
    try {
      find_model_folder(folder.path());
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::kData);
      return e.message();
    }
    return std::string();
  };
  CHECK(error_of() == folder.path() + " is damaged: it has no config.json");
  FailingStat bad_disk("/config.json");
  const FileOpsOverride override_ops(bad_disk);
  CHECK_THAT(error_of(), Catch::Contains("/config.json: Input/output error"));
  CHECK_THROWS_WITH(end_ids(folder.path()), Catch::Contains("Input/output error"));
}

TEST_CASE("the tokens that end a text are those of generation_config.json, else of config.json") {
  TemporaryFolder folder;
  const auto ids = [&] { return end_ids(folder.path()); };
  CHECK(ids().empty());
  write_file_atomically(folder / "config.json", R"({"eos_token_id": 7})");
  CHECK(ids() == std::vector<std::int32_t>{7});
  write_file_atomically(folder / "generation_config.json", R"({"eos_token_id": null})");
  CHECK(ids() == std::vector<std::int32_t>{7});
  write_file_atomically(folder / "generation_config.json", R"({"eos_token_id": [5, 6]})");
  CHECK(ids() == std::vector<std::int32_t>{5, 6});
  for (const char* damaged : {"{", "[]", R"({"eos_token_id": "x"})"}) {
    write_file_atomically(folder / "generation_config.json", damaged);
    CHECK_THROWS_WITH(ids(), Catch::Contains("generation_config.json is damaged"));
  }
}
