#include "hgtrain/data/prepare.h"

#include <filesystem>
#include <fstream>
#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/config/data_config.h"
#include "hgtrain/data/token_file.h"
#include "hgtrain/data/tokenizer.h"

#include "support/failing_file_ops.h"
#include "support/roots.h"
#include "support/temporary_folder.h"

using namespace hgt;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

void save(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

bool always(const PrepareProgress&) {
  return true;
}

/// What stands in the prepared files, decoded by their own tokenizer.
std::string text_of(const std::string& prefix) {
  const TokenFile file = TokenFile::open(prefix);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.num_tokens()));
  file.read(0, tokens, 1 << 30);
  return Tokenizer::from_folder(prefix + ".tokenizer")->decode(tokens);
}

const std::string kEnd = "<|endoftext|>";

}  // namespace

TEST_CASE(
    "a folder becomes documents in the order of its names, binaries and hidden files left out") {
  const TemporaryFolder folder;
  save(folder / "in/b.txt", "two");
  save(folder / "in/a/x.txt", "one");
  save(folder / "in/c.jsonl", "{\"text\": \"three\"}\n\n{\"text\": \"four\", \"id\": 7}");
  save(folder / "in/empty.txt", "");
  save(folder / "in/.hidden", "no");
  save(folder / "in/picture", std::string("\x89PNG\0\0", 6));
  const PrepareResult result =
      prepare({.inputs = {folder / "in"}, .out = folder / "out/d"}, always);
  CHECK(text_of(folder / "out/d") == "one" + kEnd + "two" + kEnd + "three" + kEnd + "four" + kEnd);
  CHECK(result.hidden_files == 1);
  CHECK(result.binary_files.size() == 1);
  CHECK(result.empty_documents == 1);

  const auto manifest = read_manifest(folder / "out/d");
  REQUIRE(manifest);
  CHECK(manifest->tokens == 19);
  CHECK(manifest->documents == 4);
  CHECK(manifest->vocab_size == 257);
  CHECK(manifest->max_token == 256);
  CHECK(manifest->tokenizer == "byte");
  CHECK(TokenFile::open(folder / "out/d").num_documents() == 4);
  CHECK(list_folder(folder / "out") ==
        std::vector<std::string>{"d.bin", "d.idx", "d.json", "d.tokenizer"});
}

TEST_CASE("the files do not depend on the number of threads") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 400000; ++i) text += "line " + std::to_string(i) + (i % 7 == 0 ? "\n" : " ");
  save(folder / "in/long.txt", text);
  for (int i = 0; i < 300; ++i) save(folder / "in/s" + std::to_string(i), text.substr(0, i));
  for (const int threads : {1, 4})
    prepare({.inputs = {folder / "in"},
             .out = folder / ("t" + std::to_string(threads)),
             .threads = threads},
            always);
  for (const char* extension : {".bin", ".idx", ".json"})
    CHECK(read_file(folder / "t1" + extension, 1 << 28) ==
          read_file(folder / "t4" + extension, 1 << 28));
  CHECK_THAT(text_of(folder / "t1"), Catch::StartsWith(text + kEnd));
}

TEST_CASE("what exists already is kept unless --overwrite") {
  const TemporaryFolder folder;
  save(folder / "a.txt", "first");
  save(folder / "b.txt", "second");
  prepare({.inputs = {folder / "a.txt"}, .out = folder / "d"}, always);
  CHECK_THROWS_WITH(prepare({.inputs = {folder / "b.txt"}, .out = folder / "d"}, always),
                    Contains("exists already"));
  CHECK(text_of(folder / "d") == "first" + kEnd);
  prepare({.inputs = {folder / "b.txt"}, .out = folder / "d", .overwrite = true}, always);
  CHECK(text_of(folder / "d") == "second" + kEnd);
}

TEST_CASE(
    "all that transformers reads of a tokenizer goes with the data, and is replaced with it") {
  const TemporaryFolder folder;
  save(folder / "a.txt", "text");
  fs::create_directories(folder / "model");
  fs::copy(source_root() + "/tests/fixtures/tokenizers/gpt2.json", folder / "model/tokenizer.json");
  for (const char* name :
       {"merges.txt", "chat_template.jinja", "additional_chat_templates/rag.jinja"})
    save(folder / ("model/" + std::string(name)), name);
  PrepareOptions options{
      .inputs = {folder / "a.txt"}, .out = folder / "d", .tokenizer = folder / "model"};
  for (options.overwrite = false;; options.overwrite = true) {
    const Manifest manifest = prepare(options, always).manifest;
    CHECK(manifest.tokenizer_files.size() == 4);
    CHECK(manifest.tokenizer_files.contains("additional_chat_templates/rag.jinja"));
    CHECK(text_of(folder / "d") == "text" + kEnd);
    if (options.overwrite) break;
  }
  save(folder / "d.tokenizer/additional_chat_templates/rag.jinja", "changed");
  DataConfig data;
  data.train = {{folder / "d"}};
  CHECK_THROWS_WITH(vocabulary_of(data), Contains("rag.jinja"));
}

TEST_CASE("stopping leaves nothing behind") {
  const TemporaryFolder folder;
  save(folder / "a.txt", "text");
  const auto stop = [](const PrepareProgress&) { return false; };
  CHECK(prepare({.inputs = {folder / "a.txt"}, .out = folder / "d"}, stop).stopped);
  CHECK(list_folder(folder.path()) == std::vector<std::string>{"a.txt"});
}

TEST_CASE("wherever the disk fills up, the error says so and the old files stay whole") {
  const TemporaryFolder folder;
  save(folder / "a.txt", "first");
  save(folder / "b.txt", "second");
  prepare({.inputs = {folder / "a.txt"}, .out = folder / "d"}, always);
  const PrepareOptions again = {
      .inputs = {folder / "b.txt"}, .out = folder / "d", .overwrite = true};
  int fail_at = 0;
  for (;; ++fail_at) {
    FailingFileOps ops(fail_at, ENOSPC);
    {
      const FileOpsOverride use(ops);
      try {
        prepare(again, always);
      } catch (const Error& e) {
        CHECK_THAT(e.message(), Contains("No space left"));
      }
    }
    if (ops.calls() <= fail_at) break;
    for (const std::string& name : list_folder(folder.path()))
      CHECK_THAT(name, !Contains("partial"));
    // The manifest exists only where everything it speaks of does.
    if (const auto manifest = read_manifest(folder / "d"))
      CHECK(text_of(folder / "d") == (manifest->tokens == 6 ? "first" : "second") + kEnd);
  }
  CHECK(fail_at > 10);
  CHECK(text_of(folder / "d") == "second" + kEnd);
}

TEST_CASE("options that make no sense are refused") {
  const TemporaryFolder folder;
  save(folder / "a.txt", "text");
  save(folder / "empty", "");
  const std::string a = folder / "a.txt", d = folder / "d";
  CHECK_THROWS_WITH(prepare({.inputs = {folder / "none"}, .out = d}, always),
                    Contains("No such file"));
  CHECK_THROWS_WITH(prepare({.inputs = {}, .out = d}, always), Contains("names no text"));
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(prepare({.inputs = {folder / "pipe"}, .out = d}, always),
                    Contains("neither a file nor a folder"));
  CHECK_THROWS_WITH(prepare({.inputs = {folder / "empty"}, .out = d}, always), Contains("no text"));
  for (const std::string& out : {std::string(), folder / ""})
    CHECK_THROWS_WITH(prepare({.inputs = {a}, .out = out}, always), Contains("names no file"));
  CHECK_THROWS_WITH(prepare({.inputs = {a}, .out = d, .threads = -1}, always),
                    Contains("--threads"));
  CHECK_THROWS_WITH(prepare({.inputs = {a}, .out = d, .end_of_text = "<x>"}, always),
                    Contains("<x>"));
  CHECK_THROWS_WITH(prepare({.inputs = {a}, .out = d, .tokenizer = "bite"}, always),
                    Contains("bite"));
}

TEST_CASE("a file that is not text is refused if it is named, and skipped in a folder") {
  const TemporaryFolder folder;
  const std::string d = folder / "d";
  const auto refuses = [&](const char* name, const std::string& content, const char* what) {
    save(folder / ("one/" + std::string(name)), content);
    CHECK_THROWS_WITH(
        prepare({.inputs = {folder / ("one/" + std::string(name))}, .out = d}, always),
        Contains(name) && Contains(what));
  };
  refuses("a.csv", "text\nx\n", "is a table");
  refuses("a.parquet", "PAR1", "is a table");
  refuses("a.json", " [{\"text\": \"x\"}]", "is a JSON array; each line must hold one object");
  refuses("a.jsonl", "[{\"text\": \"x\"}]", "is a JSON array; each line must hold one object");
  refuses("u16.jsonl", std::string("{\0", 2), "NUL");

  save(folder / "in/a.csv", "text\nx\n");
  save(folder / "in/array.json", "[{\"text\": \"x\"}]");
  save(folder / "in/array.jsonl", "\n[{\"text\": \"x\"}]");
  save(folder / "in/package.json", "{\n  \"name\": \"x\"\n}\n");
  save(folder / "in/lines.json", "{\"text\": \"b\"}\n{\"text\": \"c\"}\n");
  save(folder / "in/other.tokenizer/tokenizer.json", "{}");
  save(folder / "in/z.txt", "z");
  const PrepareResult result = prepare({.inputs = {folder / "in"}, .out = d}, always);
  CHECK(text_of(d) == "b" + kEnd + "c" + kEnd + "z" + kEnd);
  CHECK(result.manifest.source_files == 2);
  CHECK(result.other_files ==
        std::vector<std::string>{folder / "in/a.csv", folder / "in/other.tokenizer"});
  CHECK(result.json_files == std::vector<std::string>{folder / "in/array.json",
                                                      folder / "in/array.jsonl",
                                                      folder / "in/package.json"});
  save(folder / "arrays/array.jsonl", "[{\"text\": \"x\"}]");
  CHECK_THROWS_WITH(
      prepare({.inputs = {folder / "arrays"}, .out = folder / "e"}, always),
      Contains("holds no text: ") && Contains("array.jsonl is JSON, but not an object"));
}

TEST_CASE("a line without an end is refused by file and line, or skipped") {
  const TemporaryFolder folder;
  const std::string line = "{\"text\": \"a\"}\n", path = folder / "a.jsonl";
  {
    File file = File::open(path, O_WRONLY | O_CREAT);
    file.write(line + "{\"text\": \"");
    const std::string piece(1 << 20, 'x');
    for (int i = 0; i < 65; ++i) file.write(piece);
    file.write("\"}\n" + line + "{\"text\": \n");
  }
  CHECK_THROWS_WITH(prepare({.inputs = {path}, .out = folder / "d"}, always),
                    Contains("longer than 64 MiB"));
  const PrepareResult result =
      prepare({.inputs = {path}, .out = folder / "d", .skip_bad_lines = true}, always);
  CHECK(text_of(folder / "d") == "a" + kEnd + "a" + kEnd);
  CHECK(result.bad_lines == 2);
  CHECK_THAT(result.first_bad_line, Contains("a.jsonl:"));
  save(folder / "worse.jsonl", "1\n2\n");
  CHECK_THROWS_WITH(
      prepare({.inputs = {folder / "worse.jsonl"}, .out = folder / "e", .skip_bad_lines = true},
              always),
      Contains("every line is bad") && Contains("worse.jsonl:1"));
  try {
    prepare({.inputs = {folder / "worse.jsonl"}, .out = folder / "e", .skip_bad_lines = true},
            always);
  } catch (const Error& e) {
    CHECK(e.hint() == "name the field of the text: --json_field NAME");
  }
}

TEST_CASE("an object over several lines is refused with the way to make a line of it") {
  const TemporaryFolder folder;
  save(folder / "one.json", "{\n  \"text\": \"a\"\n}\n");
  try {
    prepare({.inputs = {folder / "one.json"}, .out = folder / "d"}, always);
    FAIL("taken");
  } catch (const Error& e) {
    CHECK_THAT(e.message(), Contains("one.json has a JSON object that spans several lines"));
    CHECK_THAT(e.hint(), Contains("jq -c . "));
  }
}
