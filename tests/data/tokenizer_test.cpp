#include "hgtrain/data/tokenizer.h"

#include <filesystem>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"

#include "support/temporary_folder.h"
#include "tokenizer_fixtures.h"

using namespace hgt;
using Catch::Contains;
namespace fs = std::filesystem;

TEST_CASE("a saved BPE tokenizer is read back the same, with the files next to it") {
  const TemporaryFolder from, to;
  fs::copy(kFixtures + "qwen3.json", from / "tokenizer.json");
  write_new_file(from / "tokenizer_config.json", R"({"eos_token": {"content": "<|long|>"}})");
  write_new_file(from / "chat_template.jinja", "{{ messages }}");
  make_folders(from / "additional_chat_templates");
  write_new_file(from / "additional_chat_templates/rag.jinja", "{{ x }}");
  const auto tokenizer = Tokenizer::from_folder(from.path());
  CHECK(tokenizer->kind() == "bpe");
  CHECK(tokenizer->end_of_text() == tokenizer->id_of("<|long|>"));
  tokenizer->save(to.path());
  for (const std::string& name : list_folder(from.path()))
    if (name != "additional_chat_templates")
      CHECK(read_file(from / name, 1 << 20) == read_file(to / name, 1 << 20));
  CHECK(read_file(to / "additional_chat_templates/rag.jinja", 100) == "{{ x }}");
  CHECK(list_folder(to.path()) == list_folder(from.path()));
}

TEST_CASE("the end of text is what the files say, else the usual name") {
  const auto tokenizer = Tokenizer::open(kFixtures + "gpt2.json");
  CHECK(tokenizer->end_of_text() == tokenizer->id_of("<|endoftext|>"));
  CHECK(tokenizer->end_of_text() > 0);
  CHECK(tokenizer->id_of("no such token") == -1);
  CHECK(Tokenizer::open(kFixtures + "llama2.json")->end_of_text() == 2);  // </s>

  const TemporaryFolder folder;
  fs::copy(kFixtures + "gpt2.json", folder / "tokenizer.json");
  write_new_file(folder / "tokenizer_config.json", "[]");
  CHECK_THROWS_WITH(Tokenizer::from_folder(folder.path()), Contains("not a JSON object"));
}

TEST_CASE("the byte tokenizer comes back from its folder as itself") {
  const TemporaryFolder folder;
  Tokenizer::byte()->save(folder.path());
  const auto tokenizer = Tokenizer::from_folder(folder.path());
  CHECK(tokenizer->kind() == "byte");
  CHECK(tokenizer->vocab_size() == 257);
  CHECK(tokenizer->end_of_text() == 256);
}

TEST_CASE("tokenizers that do not exist are named") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(Tokenizer::from_folder(folder.path()), Contains("has no tokenizer.json"));
  CHECK_THROWS_WITH(Tokenizer::open("no/such"), Contains("no/such"));
  write_new_file(folder / "tokenizer.json", "{}");
  try {
    Tokenizer::from_folder(folder.path());
    FAIL("read");
  } catch (const Error& e) {
    CHECK_THAT(e.render(), Contains("tokenizer.json"));
  }
}
