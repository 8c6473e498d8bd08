// Whatever happens to a byte or a file of a checkpoint, it is refused by file and tensor, never
// loaded.

#include <filesystem>

#include <catch2/catch.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/checkpoint/safetensors.h"

#include "manifest.h"
#include "support/failing_stat.h"
#include "support/load_checkpoint.h"
#include "support/temporary_folder.h"
#include "tiny_run.h"

using namespace hgt;

namespace {

constexpr const char* kFiles[] = {"config.json",           "generation_config.json",
                                  "manifest.json",         "model.safetensors",
                                  "optimizer.safetensors", "trainer_state.json"};

/// A run folder with checkpoints of steps 1 and 2, whose newest is to be damaged.
struct SavedRun {
  TemporaryFolder folder;
  TinyRun run;
  std::string newest = folder / "checkpoints/step_00000002";
  SavedRun() {
    const auto writer = run.writer(folder.path());
    for (const std::int64_t step : {1, 2}) {
      run.at(step);
      writer->save(run.state, run.flat());
    }
    REQUIRE_FALSE(writer->wait());
  }
  std::string path(const std::string& name) const { return newest + "/" + name; }
  std::string text(const std::string& name) const { return read_file(path(name), 1 << 20); }
  void replace(const std::string& name, const std::string& text) const {
    std::filesystem::remove(path(name));
    write_new_file(path(name), text);
  }
  Error refusal() {
    TinyRun loaded;
    return error_of([&] { load_checkpoint(newest, run.model, run.table, loaded.flat()); });
  }
};

bool names(const Error& e, const std::string& path) {
  if (e.message().find(path) != std::string::npos) return true;
  return !e.context().empty() && e.context().front().find(path) != std::string::npos;
}

}  // namespace

TEST_CASE("a flipped bit anywhere in a checkpoint is refused with the file's name") {
  SavedRun saved;
  for (const std::string name : kFiles) {
    const std::string good = saved.text(name);
    const std::size_t stride = good.size() / 150 + 1;
    for (std::size_t at = 0; at < good.size(); at += stride) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
      saved.replace(name, bad);
      const Error e = saved.refusal();
      CAPTURE(name, at, e.message());
      CHECK(e.exit_code() == 4);
      CHECK(names(e, saved.path(name)));
    }
    saved.replace(name, good);
  }
  CHECK(saved.run.holds(saved.newest, 2));
}

TEST_CASE("damage in a tensor is refused with the tensor's name and offers the checkpoint before") {
  SavedRun saved;
  const auto file = SafetensorsFile::open(saved.path("optimizer.safetensors"));
  const TensorInfo& tensor = file.tensors().at(1);
  REQUIRE(tensor.name == "exp_avg.transformer.ln_f.weight");
  std::string bytes = saved.text("optimizer.safetensors");
  const std::size_t data_bytes = static_cast<std::size_t>(file.tensors().back().end);
  bytes[bytes.size() - data_bytes + static_cast<std::size_t>(tensor.begin)] ^= 1;
  saved.replace("optimizer.safetensors", bytes);
  const Error e = saved.refusal();
  CHECK(e.message() == saved.path("optimizer.safetensors") +
                           " is damaged: tensor exp_avg.transformer.ln_f.weight does not have the "
                           "manifest's hash");
  CHECK_THAT(e.hint(), Catch::Contains("use the checkpoint before it: " +
                                       (saved.folder / "checkpoints/step_00000001")));
}

TEST_CASE("a file that is shortened, lengthened, emptied, gone or another's is refused") {
  SavedRun saved;
  for (const std::string name : kFiles) {
    const std::string good = saved.text(name);
    for (const std::string& bad : {good.substr(0, good.size() - 1), good.substr(0, good.size() / 2),
                                   std::string(), good + "x", std::string(good.size(), '\0')}) {
      saved.replace(name, bad);
      const Error e = saved.refusal();
      CAPTURE(name, bad.size(), e.message());
      CHECK(e.exit_code() == 4);
      CHECK(names(e, saved.path(name)));
    }
    std::filesystem::remove(saved.path(name));
    CHECK(saved.refusal().exit_code() == 4);
    saved.replace(name, good);
    const std::string other =
        read_file(saved.folder / ("checkpoints/step_00000001/" + name), 1 << 20);
    saved.replace(name, other);
    if (other != good && name != std::string("manifest.json")) {
      CHECK(names(saved.refusal(), saved.path(name)));
    } else if (other != good) {
      CHECK(saved.refusal().exit_code() == 4);
    }
    saved.replace(name, good);
  }
}

TEST_CASE("a checkpoint of format version 1, with one hash per tensor, is read and checked") {
  SavedRun saved;
  std::string body = saved.text("manifest.json");
  body.resize(body.size() - manifest_seal("").size());
  const std::string now = R"("version": 2)";
  body.replace(body.find(now), now.size(), R"("version": 1)");
  saved.replace("manifest.json", body + manifest_seal(body));
  CHECK(saved.run.holds(saved.newest, 2));
  std::string bytes = saved.text("model.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  saved.replace("model.safetensors", bytes);
  CHECK_THAT(saved.refusal().message(), Catch::Contains("tensor transformer.ln_f.weight does not"));
}

TEST_CASE("without a checkpoint before it, the hint says so") {
  SavedRun saved;
  remove_tree(saved.folder / "checkpoints/step_00000001");
  saved.replace("trainer_state.json", "{}");
  CHECK(saved.refusal().hint().starts_with("there is no checkpoint before it in this run"));
}

TEST_CASE(
    "a folder that is not a checkpoint, or has no manifest, is distinguished from a damaged one") {
  SavedRun saved;
  std::filesystem::remove(saved.path("manifest.json"));
  CHECK_THAT(saved.refusal().message(), Catch::Contains("it has no manifest.json"));
  CHECK(saved.refusal().exit_code() == 4);
  remove_tree(saved.newest);
  CHECK(saved.refusal().message() == "there is no checkpoint " + saved.newest);
  CHECK(saved.refusal().exit_code() == 2);
}

TEST_CASE("a disk that fails is not reported as a missing manifest") {
  SavedRun saved;
  FailingStat bad_disk("/manifest.json");
  const FileOpsOverride override_ops(bad_disk);
  CHECK_THAT(saved.refusal().message(), Catch::Contains("manifest.json: Input/output error"));
}

TEST_CASE("a whole checkpoint of another model is a config error that says what differs") {
  SavedRun saved;
  TinyRun other;
  other.model.num_attention_heads = 4;
  const Error e =
      error_of([&] { load_checkpoint(saved.newest, other.model, other.table, other.flat()); });
  CHECK(e.exit_code() == 2);
  CHECK_THAT(e.message(), Catch::Contains("n_head: 2 there, 4 now"));
}

TEST_CASE("a moving average is saved under the weights' names, and read if there is one") {
  const TemporaryFolder folder;
  TinyRun run;
  run.at(3);
  std::vector<float> ema = run.exp_avg;
  FlatState flat = run.flat();
  flat.ema = {flat_tensor(ema)};
  for (const bool async : {false, true}) {
    const auto writer = run.writer_from("", folder.path(), 0, async);
    writer->save(run.state, flat);
    REQUIRE_FALSE(writer->wait());
  }
  const std::string saved = list_checkpoints(folder.path()).front();
  TinyRun other;
  std::vector<float> read(ema.size());
  FlatState into = other.flat();
  into.ema = {flat_tensor(read)};
  CHECK(load_checkpoint(saved, other.model, other.table, into).has_ema);
  CHECK(read == ema);
  CHECK(load_checkpoint(saved, other.model, other.table, other.flat()).has_ema);
  load_hf_weights(saved, other.table, flat_tensor(other.parameters), "ema");
  CHECK(other.parameters == ema);

  SavedRun without;
  CHECK_FALSE(load_checkpoint(without.newest, other.model, other.table, into).has_ema);
  CHECK(read == ema);
  const Error e = error_of(
      [&] { load_hf_weights(without.newest, other.table, flat_tensor(other.parameters), "ema"); });
  CHECK(e.exit_code() == 2);
  CHECK_THAT(e.message(), Catch::EndsWith("has no moving average of the weights"));
}

TEST_CASE("another optimizer is a config error that names both states") {
  SavedRun saved;
  TinyRun other;
  const Error e = error_of([&] {
    load_checkpoint(
        saved.newest, other.model, other.table,
        {{flat_tensor(other.parameters)}, {{"momentum", {flat_tensor(other.exp_avg)}}}});
  });
  CHECK(e.exit_code() == 2);
  CHECK(e.message() == saved.newest +
                           " belongs to another optimizer: its state is exp_avg, exp_avg_sq, "
                           "this run's is momentum");
  CHECK_THAT(error_of([&] {
               load_checkpoint(saved.newest, other.model, other.table,
                               {{flat_tensor(other.parameters)}, {}});
             }).message(),
             Catch::EndsWith("this run's is nothing"));
}
