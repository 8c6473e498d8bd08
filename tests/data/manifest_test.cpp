#include "hgtrain/data/manifest.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"

#include "support/temporary_folder.h"
#include "token_files.h"

using namespace hgt;
using Catch::Contains;

namespace {

Manifest some_manifest() {
  Manifest m;
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
  refuses(R"({"format": "hgtrain tokens", "format_version": 2})", "format_version 2");
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

  Manifest other = some_manifest();
  other.vocab_size = 1000;
  save_data(folder / "b", to_text(other));
  CHECK_THROWS_WITH(vocabulary_of(config),
                    Contains("different tokenizers") && Contains("257 and 1000"));
}
