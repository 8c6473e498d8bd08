#include "hgtrain/data/inspect.h"

#include <fstream>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/data/prepare.h"

#include "support/temporary_folder.h"
#include "token_files.h"

using namespace hgt;
using Catch::Contains;

TEST_CASE("prepared data is described, and verified against its manifest") {
  const TemporaryFolder folder;
  write_new_file(folder / "a.txt", "hello");
  prepare({.inputs = {folder / "a.txt"}, .out = folder / "d"},
          [](const PrepareProgress&) { return true; });
  const TokenReport report = inspect({.path = folder / "d", .show = 3, .verify = true});
  CHECK(report.tokens == 6);
  CHECK(report.documents == 1);
  CHECK(report.max_token == 256);
  CHECK(report.first_text == "hel");
  CHECK(report.manifest->vocab_size == 257);

  std::fstream(folder / "d.bin", std::ios::binary | std::ios::in | std::ios::out) << 'j';
  CHECK(inspect({.path = folder / "d"}).first_text->starts_with("jello"));
  CHECK_THROWS_WITH(inspect({.path = folder / "d", .verify = true}),
                    Contains("d.bin is not what was prepared"));
}

TEST_CASE("files of others are described by what they hold") {
  const TemporaryFolder folder;
  BytesBuilder().put_all<std::uint16_t>(std::vector{72, 105, 300}).save(folder / "x.bin");
  const TokenReport report = inspect({.path = folder / "x.bin"});
  CHECK(report.format == TokenFile::Format::kBare);
  CHECK(report.max_token == 300);
  CHECK(report.documents == -1);
  CHECK_FALSE(report.first_text);
  CHECK(inspect({.path = folder / "x.bin", .tokenizer = "byte", .show = 2}).first_text == "Hi");
  CHECK_THROWS_WITH(inspect({.path = folder / "x.bin", .verify = true}), Contains("no manifest"));
  BytesBuilder().save(folder / "empty.bin");
  CHECK(inspect({.path = folder / "empty.bin"}).max_token == -1);
}
