#include "../../src/data/prepared_files.h"

#include <sys/file.h>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "../../src/data/content_hash.h"
#include "support/failing_file_ops.h"
#include "support/temporary_folder.h"

using namespace hgt;
using Catch::Contains;

namespace {

std::vector<std::int32_t> read_all(const std::string& prefix) {
  const TokenFile file = TokenFile::open(prefix);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.num_tokens()));
  file.read(0, tokens, 1 << 30);
  return tokens;
}

}  // namespace

TEST_CASE("nothing stands under the final names before commit, everything after") {
  const TemporaryFolder folder;
  Manifest manifest;
  {
    PreparedFiles files(folder / "sub/d", TokenType::kInt32, false);
    files.append(std::vector<std::int32_t>{1, 70000});
    files.append(std::vector<std::int32_t>{3});
    files.end_document();
    files.append(std::vector<std::int32_t>{4});
    files.end_document();
    CHECK(list_folder(folder / "sub") == std::vector<std::string>{"d.bin.partial"});
    files.commit(manifest, *Tokenizer::byte());
  }
  CHECK(list_folder(folder / "sub") ==
        std::vector<std::string>{"d.bin", "d.idx", "d.json", "d.tokenizer"});
  CHECK(read_all(folder / "sub/d") == std::vector<std::int32_t>{1, 70000, 3, 4});
  CHECK(manifest.tokens == 4);
  CHECK(manifest.documents == 2);
  CHECK(manifest.max_token == 70000);
  CHECK(manifest.dtype == "int32");
  CHECK(manifest.bin_hash == hash_file(folder / "sub/d.bin"));
  CHECK(manifest.idx_hash == hash_file(folder / "sub/d.idx"));
}

TEST_CASE("without commit nothing stays") {
  const TemporaryFolder folder;
  { PreparedFiles files(folder / "d", TokenType::kUint16, false); }
  CHECK(list_folder(folder.path()).empty());
}

TEST_CASE("whichever call of commit fails, nothing stays") {
  for (int call = 0;; ++call) {
    CAPTURE(call);
    const TemporaryFolder folder;
    bool committed = false;
    {
      PreparedFiles files(folder / "d", TokenType::kUint16, false);
      files.append(std::vector<std::int32_t>{7});
      files.end_document();
      Manifest manifest;
      FailingFileOps failing(call, EIO);
      const FileOpsOverride use(failing);
      try {
        files.commit(manifest, *Tokenizer::byte());
        committed = failing.calls() <= call;
      } catch (const Error& e) {
        CHECK_THAT(e.message(), Contains("Input/output error"));
      }
    }
    if (committed) break;
    CHECK((list_folder(folder.path()).empty() || path_exists(folder / "d.json")));
  }
}

TEST_CASE("what a killed run left is written over, a running one is let alone") {
  const TemporaryFolder folder;
  write_new_file(folder / "d.bin.partial", "longer than what is written now");
  {
    const File other = File::open(folder / "d.bin.partial", O_WRONLY);
    REQUIRE(flock(other.fd(), LOCK_EX) == 0);
    CHECK_THROWS_WITH(PreparedFiles(folder / "d", TokenType::kUint16, false),
                      Contains("another process is preparing"));
  }
  write_new_file(folder / "d.idx.partial", "");
  write_new_file(folder / "d.json.tmp-01234567", "");
  make_folders(folder / "d.tokenizer.partial");
  write_new_file(folder / "d.tokenizer.partial/chat_template.jinja", "of another tokenizer");
  Manifest manifest;
  PreparedFiles files(folder / "d", TokenType::kUint16, false);
  CHECK(list_folder(folder.path()) == std::vector<std::string>{"d.bin.partial"});
  files.append(std::vector<std::int32_t>{7});
  files.end_document();
  files.commit(manifest, *Tokenizer::byte());
  CHECK(read_all(folder / "d") == std::vector<std::int32_t>{7});
}

TEST_CASE("a file of the user's is never replaced, not even where data may be") {
  const TemporaryFolder folder;
  const auto refuses = [&](const char* what) {
    CHECK_THROWS_WITH(PreparedFiles(folder / "d", TokenType::kUint16, true), Contains(what));
  };
  write_new_file(folder / "d.json", R"([{"text": "the user's"}])");
  refuses("d.json is not what");
  CHECK(read_file(folder / "d.json", 100) == R"([{"text": "the user's"}])");
  remove_file(folder / "d.json");
  make_folders(folder / "d.tokenizer/thesis");
  refuses("d.tokenizer is not a folder");
  remove_tree(folder / "d.tokenizer");

  PreparedFiles files(folder / "d", TokenType::kUint16, true);
  files.append(std::vector<std::int32_t>{7});
  files.end_document();
  write_new_file(folder / "d.json", "came meanwhile");
  Manifest manifest;
  CHECK_THROWS_WITH(files.commit(manifest, *Tokenizer::byte()), Contains("d.json is not what"));
  CHECK(read_file(folder / "d.json", 100) == "came meanwhile");
}
