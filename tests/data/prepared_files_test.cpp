#include "../../src/data/prepared_files.h"

#include <sys/file.h>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

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

TEST_CASE("what a killed run left is written over, a running one is let alone") {
  const TemporaryFolder folder;
  write_new_file(folder / "d.bin.partial", "longer than what is written now");
  {
    const File other = File::open(folder / "d.bin.partial", O_WRONLY);
    REQUIRE(flock(other.fd(), LOCK_EX) == 0);
    CHECK_THROWS_WITH(PreparedFiles(folder / "d", TokenType::kUint16, false),
                      Contains("another process is preparing"));
  }
  Manifest manifest;
  PreparedFiles files(folder / "d", TokenType::kUint16, false);
  files.append(std::vector<std::int32_t>{7});
  files.end_document();
  files.commit(manifest, *Tokenizer::byte());
  CHECK(read_all(folder / "d") == std::vector<std::int32_t>{7});
}
