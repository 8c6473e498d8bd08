#include "../../src/data/source_files.h"

#include <unistd.h>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"

#include "support/temporary_folder.h"

using namespace hgt;
using Catch::Contains;

namespace {

void put_empty(const std::string& path) {
  make_folders(parent_folder(path));
  write_new_file(path, "");
}

std::vector<std::string> paths(const SourceFiles& found) {
  std::vector<std::string> out;
  for (const SourceFile& file : found.files) out.push_back(file.path);
  return out;
}

}  // namespace

TEST_CASE("folders are searched in the order of the names, what holds no text is set apart") {
  const TemporaryFolder folder;
  for (const char* name :
       {"b.txt", "a/x.jsonl", "a/.hidden", "a/t.parquet", "d.tokenizer/x.txt", "d.txt"})
    put_empty(folder / name);
  REQUIRE(symlink(".", (folder / "a/loop").c_str()) == 0);
  const SourceFiles found = find_sources({folder.path()}, folder / "d.");
  CHECK(paths(found) == std::vector<std::string>{folder / "a/x.jsonl", folder / "b.txt"});
  CHECK(found.files[0].json_lines);
  CHECK_FALSE(found.files[1].json_lines);
  CHECK(found.hidden == 1);
  CHECK(found.other == std::vector<std::string>{folder / "a/t.parquet", folder / "d.tokenizer"});
}

TEST_CASE("a file that is named and holds no text is refused with the way to make text of it") {
  const TemporaryFolder folder;
  put_empty(folder / "t.csv");
  try {
    find_sources({folder / "t.csv"}, "out.");
    FAIL("taken");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kConfig);
    CHECK(e.message() == (folder / "t.csv") + " is a table, not text");
    CHECK_THAT(e.hint(), Contains("read_csv"));
  }
  CHECK_THROWS_WITH(find_sources({folder.path()}, "out."), Contains("no text to read"));
  CHECK_THROWS_WITH(find_sources({folder / "none"}, "out."), Contains("No such file"));
}
