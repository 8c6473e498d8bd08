#include "hgtrain/data/manifest.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/config/data_config.h"
#include "hgtrain/data/prepare.h"
#include "hgtrain/data/tokenizer.h"

#include "support/temporary_folder.h"
#include "token_files.h"

using namespace hgt;
using Catch::Contains;

namespace {

/// Of version 1 unless a test says otherwise: it speaks of no tokenizer and no sample.
Manifest some_manifest() {
  Manifest m;
  m.format_version = 1;
  m.tokenizer = "byte";
  m.vocab_size = 257;
  m.end_of_text = 256;
  m.tokens = 3;
  m.documents = 1;
  m.dtype = "uint16";
  m.bin_hash = 0x0123456789abcdef;
  return m;
}

void save_data(const std::string& prefix, const std::string& manifest) {
  BytesBuilder().put_all<std::uint16_t>(std::vector{1, 2, 256}).save(prefix + ".bin");
  BytesBuilder().text(megatron_idx({3}, 8, 2)).save(prefix + ".idx");
  write_file_atomically(prefix + ".json", manifest);
}

}  // namespace

TEST_CASE("a manifest is read back as it was written") {
  const TemporaryFolder folder;
  save_data(folder / "d", to_text(some_manifest()));
  for (const char* name : {"d", "d.bin", "d.idx"}) {
    const auto manifest = read_manifest(folder / name);
    REQUIRE(manifest);
    CHECK(to_text(*manifest) == to_text(some_manifest()));
  }
  Manifest now = some_manifest();
  now.format_version = 2;
  now.begin_of_text = 1;
  now.bin_sample = 0x1122334455667788;
  now.tokenizer_files["tokenizer.json"] = 3;
  save_data(folder / "d", to_text(now));
  CHECK(to_text(*read_manifest(folder / "d")) == to_text(now));
  CHECK(read_manifest(folder / "d")->tokenizer_files.at("tokenizer.json") == 3);
}

TEST_CASE("of data that is not what was prepared, the file is named") {
  const TemporaryFolder folder;
  write_new_file(folder / "a.txt", "some text");
  const Manifest manifest =
      prepare({.inputs = {folder / "a.txt"}, .out = folder / "d"}, [](const PrepareProgress&) {
        return true;
      }).manifest;
  check_prepared(manifest, folder / "d");
  const auto with = [&](const char* name, const std::string& content) {
    const std::string path = folder / name, before = read_file(path, 1 << 20);
    write_file_atomically(path, content);
    CHECK_THROWS_WITH(check_prepared(manifest, folder / "d"),
                      Contains(name) && Contains("not what was prepared"));
    write_file_atomically(path, before);
  };
  std::string tokens = read_file(folder / "d.bin", 100);
  tokens[tokens.size() / 2] ^= 1;
  with("d.bin", tokens);
  with("d.tokenizer/tokenizer.json", "{\"cut");
  check_prepared(manifest, folder / "d");
  remove_tree(folder / "d.tokenizer");
  try {
    check_prepared(manifest, folder / "d");
    FAIL("it was accepted");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kConfig);
    CHECK(e.message() ==
          fmt::format("there is no {0}.tokenizer/tokenizer.json, which belongs to the data {0}",
                      folder / "d"));
    CHECK_THAT(e.hint(), Contains("prepare them again"));
  }
  CHECK(is_manifest(folder / "d.json"));
  CHECK_FALSE(is_manifest(folder / "a.txt"));
}

TEST_CASE("data of others has no manifest") {
  const TemporaryFolder folder;
  CHECK_FALSE(read_manifest(folder / "nothing"));
  save_data(folder / "d", R"({"some": "other file"})");
  CHECK_FALSE(read_manifest(folder / "d"));
}

TEST_CASE("a damaged manifest is refused by name") {
  const TemporaryFolder folder;
  const auto refuses = [&](const std::string& text, const char* what) {
    save_data(folder / "d", text);
    CHECK_THROWS_WITH(read_manifest(folder / "d"), Contains("d.json") && Contains(what));
  };
  std::string text = to_text(some_manifest());
  refuses(text.substr(0, text.size() / 2), "damaged");
  refuses(R"({"format": "hgtrain tokens", "format_version": 1})", "damaged");
  refuses(R"({"format": "hgtrain tokens", "format_version": 2})", "damaged");
  refuses(R"({"format": "hgtrain tokens", "format_version": 3})", "format_version 3");
  Manifest sealed = some_manifest();
  sealed.format_version = 2;
  std::string changed = to_text(sealed);
  refuses(changed.replace(changed.find("257"), 3, "300"), "changed after it was written");
  refuses(text.replace(text.find("0123"), 1, "x"), "hash");
}

TEST_CASE("the vocabulary of a config is what its manifests agree on") {
  const TemporaryFolder folder;
  save_data(folder / "a", to_text(some_manifest()));
  save_data(folder / "b", to_text(some_manifest()));
  BytesBuilder().put_all<std::uint16_t>(counting(9)).save(folder / "c.bin");
  DataConfig config;
  config.train = {{folder / "c.bin"}};
  CHECK(vocabulary_of(config).size == 0);
  CHECK(vocabulary_of(config).tokenizer_folder == "");
  config.train.push_back({folder / "a.bin"});
  config.valid = {{folder / "b"}};
  CHECK(vocabulary_of(config).size == 257);
  CHECK(vocabulary_of(config).end_of_text == 256);
  CHECK(vocabulary_of(config).tokenizer_folder == folder / "a.tokenizer");

  make_folders(folder / "a.tokenizer");
  make_folders(folder / "b.tokenizer");
  Tokenizer::byte()->save(folder / "a.tokenizer");
  Tokenizer::byte()->save(folder / "b.tokenizer");
  CHECK(vocabulary_of(config).size == 257);
  std::string tokenizer = read_file(folder / "b.tokenizer/tokenizer.json", 1 << 20);
  tokenizer.replace(tokenizer.find("\"A\": 65"), 7, "\"A\": 66");
  write_file_atomically(folder / "b.tokenizer/tokenizer.json",
                        tokenizer.replace(tokenizer.find("\"B\": 66"), 7, "\"B\": 65"));
  CHECK_THROWS_WITH(vocabulary_of(config), Contains("different tokenizers of one size"));

  Manifest other = some_manifest();
  other.vocab_size = 1000;
  save_data(folder / "b", to_text(other));
  CHECK_THROWS_WITH(vocabulary_of(config),
                    Contains("different tokenizers") && Contains("257 and 1000"));
}
