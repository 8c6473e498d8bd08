#include "hgtrain/base/file_ops.h"

#include <algorithm>
#include <cerrno>

#include <catch2/catch.hpp>

#include "hgtrain/base/file.h"

#include "support/temporary_folder.h"

using namespace hgt;

TEST_CASE("the names in a folder are listed") {
  const TemporaryFolder folder;
  write_new_file(folder / "b", "");
  make_folders(folder / "a");
  std::vector<std::string> names{"before"};
  REQUIRE(file_ops().list(folder.path().c_str(), names) == 0);
  std::ranges::sort(names);
  CHECK(names == std::vector<std::string>{"a", "b", "before"});
}

TEST_CASE("a folder that cannot be listed has an error number") {
  const TemporaryFolder folder;
  std::vector<std::string> names;
  CHECK(file_ops().list((folder / "missing").c_str(), names) == -1);
  CHECK(errno == ENOENT);
}

TEST_CASE("the innermost override is in use as long as it lives") {
  FileOps* const before = &file_ops();
  FileOps outer, inner;
  {
    const FileOpsOverride one(outer);
    {
      const FileOpsOverride two(inner);
      CHECK(&file_ops() == &inner);
    }
    CHECK(&file_ops() == &outer);
  }
  CHECK(&file_ops() == before);
}
