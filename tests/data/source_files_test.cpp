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

TEST_CASE(
    "folders are searched in the order of the names, and files without text are listed apart") {
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
  CHECK_THROWS_WITH(find_sources({folder.path()}, "out."), Contains("--input names no text"));
  CHECK_THROWS_WITH(find_sources({folder / "none"}, "out."), Contains("No such file"));
}

TEST_CASE("a file that two inputs name is refused, but not one that a folder has under two names") {
  const TemporaryFolder folder;
  put_empty(folder / "t/a.txt");
  put_empty(folder / "b.txt");
  const std::string t = folder / "t", a = folder / "t/a.txt", link = folder / "t/link.txt";
  CHECK_THROWS_WITH(find_sources({t, t}, "out."), "--input names " + a + " twice");
  CHECK_THROWS_WITH(find_sources({t + "/../t", t}, "out."), Contains("twice"));
  CHECK_THROWS_WITH(find_sources({a, folder / "b.txt", t}, "out."), Contains("a.txt twice"));
  REQUIRE(symlink("a.txt", link.c_str()) == 0);
  CHECK_THROWS_WITH(find_sources({a, link}, "out."), Contains("link.txt twice"));
  CHECK(paths(find_sources({t, folder / "b.txt"}, "out.")) ==
        std::vector<std::string>{a, link, folder / "b.txt"});
}
