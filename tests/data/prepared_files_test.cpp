#include "../../src/data/prepared_files.h"

#include <sys/file.h>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "../../src/data/content_hash.h"
#include "support/failing_file_ops.h"
#include "support/temporary_folder.h"
#include "token_files.h"

using namespace hgt;
using Catch::Contains;

TEST_CASE("no file has its final name before commit, and every file has it afterwards") {
  const TemporaryFolder folder;
  Manifest manifest;
  {
    PreparedFiles files(folder / "sub/d", TokenType::kInt32, *Tokenizer::byte(), false);
    files.append(std::vector<std::int32_t>{1, 70000});
    files.append(std::vector<std::int32_t>{3});
    files.end_document();
    files.append(std::vector<std::int32_t>{4});
    files.end_document();
    CHECK(list_folder(folder / "sub") ==
          std::vector<std::string>{"d.bin.partial", "d.tokenizer.partial"});
    files.commit(manifest);
  }
  CHECK(list_folder(folder / "sub") ==
        std::vector<std::string>{"d.bin", "d.idx", "d.json", "d.tokenizer"});
  CHECK(read_tokens(TokenFile::open(folder / "sub/d")) ==
        std::vector<std::int32_t>{1, 70000, 3, 4});
  CHECK(manifest.tokens == 4);
  CHECK(manifest.documents == 2);
  CHECK(manifest.max_token == 70000);
  CHECK(manifest.dtype == "int32");
  CHECK(manifest.bin_hash == hash_file(folder / "sub/d.bin"));
  CHECK(manifest.idx_hash == hash_file(folder / "sub/d.idx"));
}

TEST_CASE("without commit nothing stays") {
  const TemporaryFolder folder;
  { PreparedFiles files(folder / "d", TokenType::kUint16, *Tokenizer::byte(), false); }
  CHECK(list_folder(folder.path()).empty());
}

TEST_CASE("whichever call of commit fails, nothing stays") {
  for (int call = 0;; ++call) {
    CAPTURE(call);
    const TemporaryFolder folder;
    bool committed = false;
    {
      PreparedFiles files(folder / "d", TokenType::kUint16, *Tokenizer::byte(), false);
      files.append(std::vector<std::int32_t>{7});
      files.end_document();
      Manifest manifest;
      FailingFileOps failing(call, EIO);
      const FileOpsOverride use(failing);
      try {
        files.commit(manifest);
        committed = failing.calls() <= call;
      } catch (const Error& e) {
        CHECK_THAT(e.message(), Contains("Input/output error"));
      }
    }
    if (committed) break;
    CHECK((list_folder(folder.path()).empty() || path_exists(folder / "d.json")));
  }
}

TEST_CASE("files of a killed command are replaced, those of a running one are left alone") {
  const TemporaryFolder folder;
  write_new_file(folder / "d.bin.partial", "longer than what is written now");
  {
    const File other = File::open(folder / "d.bin.partial", O_WRONLY);
    REQUIRE(flock(other.fd(), LOCK_EX) == 0);
    CHECK_THROWS_WITH(PreparedFiles(folder / "d", TokenType::kUint16, *Tokenizer::byte(), false),
                      Contains("another process is preparing"));
  }
  write_new_file(folder / "d.idx.partial", "");
  write_new_file(folder / "d.json.tmp-01234567", "");
  make_folders(folder / "d.tokenizer.partial");
  write_new_file(folder / "d.tokenizer.partial/chat_template.jinja", "of another tokenizer");
  Manifest manifest;
  PreparedFiles files(folder / "d", TokenType::kUint16, *Tokenizer::byte(), false);
  CHECK(list_folder(folder.path()) ==
        std::vector<std::string>{"d.bin.partial", "d.tokenizer.partial"});
  CHECK_FALSE(path_exists(folder / "d.tokenizer.partial/chat_template.jinja"));
  files.append(std::vector<std::int32_t>{7});
  files.end_document();
  files.commit(manifest);
  CHECK(read_tokens(TokenFile::open(folder / "d")) == std::vector<std::int32_t>{7});
}

TEST_CASE("a file of the user's is never replaced, not even where data may be") {
  const TemporaryFolder folder;
  const auto refuses = [&](const char* what) {
    CHECK_THROWS_WITH(PreparedFiles(folder / "d", TokenType::kUint16, *Tokenizer::byte(), true),
                      Contains(what));
  };
  write_new_file(folder / "d.json", R"([{"text": "the user's"}])");
  refuses("d.json is not what");
  CHECK(read_file(folder / "d.json", 100) == R"([{"text": "the user's"}])");
  remove_file(folder / "d.json");
  make_folders(folder / "d.tokenizer/thesis");
  refuses("d.tokenizer/thesis is not what");
  remove_tree(folder / "d.tokenizer");

  PreparedFiles files(folder / "d", TokenType::kUint16, *Tokenizer::byte(), true);
  files.append(std::vector<std::int32_t>{7});
  files.end_document();
  write_new_file(folder / "d.json", "came meanwhile");
  Manifest manifest;
  CHECK_THROWS_WITH(files.commit(manifest), Contains("d.json is not what"));
  CHECK(read_file(folder / "d.json", 100) == "came meanwhile");
}

TEST_CASE("--overwrite removes from PREFIX.tokenizer what hgtrain wrote, and nothing else") {
  const TemporaryFolder folder, bpe;
  write_new_file(bpe / "tokenizer.json",
                 R"({"model": {"type": "BPE", "vocab": {"a": 0, "</s>": 1}, "merges": []}})");
  write_new_file(bpe / "chat_template.jinja", "of the model");
  make_folders(bpe / "additional_chat_templates");
  write_new_file(bpe / "additional_chat_templates/rag.jinja", "of the model");
  const auto byte = Tokenizer::byte(), other = Tokenizer::open(bpe.path());
  const auto write = [&](const Tokenizer& tokenizer) {
    PreparedFiles files(folder / "d", TokenType::kUint16, tokenizer, true);
    files.append(std::vector<std::int32_t>{1});
    files.end_document();
    Manifest manifest;
    files.commit(manifest);
  };
  write(*other);
  write(*byte);  // the files of another tokenizer are hgtrain's all the same
  CHECK_FALSE(path_exists(folder / "d.tokenizer/chat_template.jinja"));
  write(*other);

  const auto refuses = [&](const std::string& name, const std::string& text) {
    CAPTURE(name);
    write_file_atomically(folder / name, text);
    CHECK_THROWS_WITH(write(*byte), Contains(folder / name) && Contains("is not what"));
    CHECK(read_file(folder / name, 100) == text);
    CHECK(list_folder(folder.path()) ==
          std::vector<std::string>{"d.bin", "d.idx", "d.json", "d.tokenizer"});
  };
  refuses("d.tokenizer/tokenizer_notes.txt", "the user's");
  remove_file(folder / "d.tokenizer/tokenizer_notes.txt");
  refuses("d.tokenizer/additional_chat_templates/mine.jinja", "the user's");
  remove_file(folder / "d.tokenizer/additional_chat_templates/mine.jinja");
  refuses("d.tokenizer/chat_template.jinja", "changed by the user");
  write_file_atomically(folder / "d.tokenizer/chat_template.jinja", "of the model");

  // Killed before it wrote the manifest: the same command continues, another one cannot know.
  remove_file(folder / "d.json");
  CHECK_THROWS_WITH(write(*byte), Contains("d.tokenizer/") && Contains("is not what"));
  write(*other);
  CHECK(path_exists(folder / "d.json"));
}
