#include <catch2/catch.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/checkpoint/safetensors.h"

#include "support/failing_stat.h"
#include "support/temporary_folder.h"
#include "tiny_weights.h"
#include "written_file.h"

using namespace hgt;

TEST_CASE(
    "HF weights are read with and without the base model's prefix, and old buffers are skipped") {
  TemporaryFolder folder;
  Weights w;
  write_safetensors(folder / "model.safetensors",
                    {{"wte.weight", kWteShape, flat_tensor(w.wte)},
                     {"h.0.attn.bias", {4}, flat_tensor(w.norm)},
                     {"h.0.attn.masked_bias", {4}, flat_tensor(w.norm)},
                     {"transformer.ln_f.weight", kNormShape, flat_tensor(w.norm)}});
  CHECK(w.load(folder.path()) == w.run.parameters);
}

TEST_CASE("the output matrix of a tied model is skipped if it equals the embedding") {
  TemporaryFolder folder;
  Weights w;
  std::vector<float> head = w.wte;
  const auto write = [&](const std::string& name) {
    make_folders(folder / name);
    write_safetensors(folder / (name + "/model.safetensors"),
                      {{"transformer.wte.weight", kWteShape, flat_tensor(w.wte)},
                       {"transformer.ln_f.weight", kNormShape, flat_tensor(w.norm)},
                       {"lm_head.weight", kWteShape, flat_tensor(head)}});
  };
  write("same");
  CHECK(w.load(folder / "same") == w.run.parameters);
  head[3] += 1.0f;
  write("other");
  const Error e = error_of([&] { w.load(folder / "other"); });
  CHECK_THAT(e.message(), Catch::Contains("lm_head.weight") && Catch::Contains("differs"));
  CHECK_THAT(e.hint(), Catch::Contains("tie_word_embeddings"));
}

TEST_CASE("all missing and unexpected tensors, and those of a wrong shape, are listed at once") {
  TemporaryFolder folder;
  Weights w;
  write_safetensors(folder / "model.safetensors",
                    {{"transformer.wte.weight", {4, 8}, flat_tensor(w.wte)},
                     {"score.weight", {4}, flat_tensor(w.norm)}});
  const Error e = error_of([&] { w.load(folder.path()); });
  CHECK(e.exit_code() == 4);
  CHECK_THAT(
      e.message(),
      Catch::Contains(
          "wrong shape of transformer.wte.weight: [4, 8] in the file, [8, 4] in the model") &&
          Catch::Contains("unexpected score.weight") &&
          Catch::Contains("missing transformer.ln_f.weight"));
}

TEST_CASE("weights of a checkpoint of ours are checked against its manifest") {
  TemporaryFolder folder;
  Weights w;
  const auto writer = w.run.writer(folder.path());
  writer->save(w.run.state, w.run.flat());
  const std::string path = folder / "checkpoints/step_00000005";
  CHECK(w.load(path) == w.run.parameters);
  for (const char* of_training : {"/optimizer.safetensors", "/trainer_state.json"})
    remove_file(path + of_training);
  CHECK(w.load(path) == w.run.parameters);
  std::string bytes = read_file(path + "/model.safetensors", 1 << 20);
  bytes.back() ^= 1;
  remove_file(path + "/model.safetensors");
  write_new_file(path + "/model.safetensors", bytes);
  CHECK_THAT(error_of([&] { w.load(path); }).message(),
             Catch::Contains("tensor transformer.ln_f.weight does not have the manifest's hash"));
  remove_file(path + "/config.json");
  CHECK_THAT(error_of([&] { w.load(path); }).message(), Catch::Contains("config.json"));
  // A manifest that cannot be looked at is not one that is missing: the weights are not taken as
  // they are.
  FailingStat bad_disk("/manifest.json");
  const FileOpsOverride override_ops(bad_disk);
  CHECK_THAT(error_of([&] { w.load(path); }).message(), Catch::Contains("Input/output error"));
}
