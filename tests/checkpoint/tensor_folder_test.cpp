#include <catch2/catch.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/checkpoint/safetensors.h"

#include "support/failing_stat.h"
#include "support/temporary_folder.h"
#include "tiny_weights.h"
#include "written_file.h"

using namespace hgt;

TEST_CASE("an index leads to its files; one that lists tensors that its files lack is refused") {
  TemporaryFolder folder;
  Weights w;
  write_safetensors(folder / "a.safetensors", {{"wte.weight", kWteShape, flat_tensor(w.wte)}});
  write_safetensors(folder / "b.safetensors", {{"ln_f.weight", kNormShape, flat_tensor(w.norm)}});
  const auto index = [&](const std::string& text) {
    write_file_atomically(folder / "model.safetensors.index.json", text);
    return error_of([&] { w.load(folder.path()); }).message();
  };
  CHECK(index(R"({"weight_map":{"wte.weight":"a.safetensors","ln_f.weight":"b.safetensors"}})") ==
        "(no error)");
  CHECK(w.load(folder.path()) == w.run.parameters);
  using Catch::Contains;
  CHECK_THAT(index(R"({"weight_map":{"wte.weight":"a.safetensors","x":"b.safetensors"}})"),
             Contains("lists tensor x in b.safetensors, which lacks it"));
  CHECK_THAT(index(R"({"weight_map":{"wte.weight":"../a.safetensors"}})"),
             Contains("outside its folder"));
  CHECK_THAT(index(R"({"weight_map":{"wte.weight":"c.safetensors"}})"), Contains("No such file"));
  CHECK_THAT(index(R"({"weight_map":3})"), Contains("index.json is damaged"));
  CHECK_THAT(index("{"), Contains("index.json is damaged"));
  write_safetensors(folder / "c.safetensors", {{"wte.weight", kWteShape, flat_tensor(w.wte)}});
  CHECK_THAT(
      index(R"({"weight_map":{"wte.weight":"a.safetensors","ln_f.weight":"c.safetensors"}})"),
      Contains("a.safetensors and " + (folder / "c.safetensors") + " both have tensor wte.weight"));
}

TEST_CASE("a folder without safetensors says so, and what to do about pickles") {
  TemporaryFolder folder;
  Weights w;
  CHECK_THAT(error_of([&] { w.load(folder.path()); }).message(),
             Catch::Contains("has no model.safetensors"));
  write_new_file(folder / "pytorch_model.bin", "");
  CHECK_THAT(error_of([&] { w.load(folder.path()); }).hint(), Catch::Contains("save_pretrained"));
  for (const char* name :
       {"/pytorch_model.bin", "/model.safetensors", "/model.safetensors.index.json"}) {
    FailingStat bad_disk(name);
    const FileOpsOverride override_ops(bad_disk);
    CHECK_THAT(error_of([&] { w.load(folder.path()); }).message(),
               Catch::Contains(std::string(name) + ": Input/output error"));
  }
}
