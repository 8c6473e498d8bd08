#include <filesystem>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/base/file_ops.h"

#include "support/failing_file_ops.h"
#include "support/failing_stat.h"
#include "support/temporary_folder.h"

using namespace hgt;

TEST_CASE("a file replaced atomically has the old text or the new, whichever call fails") {
  TemporaryFolder folder;
  const std::string path = folder / "latest";
  write_file_atomically(path, "old");
  FailingFileOps counting;
  {
    const FileOpsOverride override_ops(counting);
    write_file_atomically(path, "old");
  }
  REQUIRE(counting.calls() >= 6);  // open, write, fsync, close, rename, open, fsync
  for (int k = 0; k < counting.calls(); ++k) {
    bool failed = false;
    {
      FailingFileOps failing(k, EIO);
      const FileOpsOverride override_ops(failing);
      try {
        write_file_atomically(path, "new");
      } catch (const Error& e) {
        failed = true;
        CHECK(e.message().find("Input/output error") != std::string::npos);
        CHECK(e.message().find(folder.path()) != std::string::npos);
      }
    }
    CAPTURE(k);
    const std::string text = read_file(path, 10);
    CHECK((text == "new" || (failed && text == "old")));
    CHECK(list_folder(folder.path()) == std::vector<std::string>{"latest"});
    write_file_atomically(path, "old");
  }
}

TEST_CASE("a new file is not written over an old one") {
  TemporaryFolder folder;
  write_new_file(folder / "f", "1");
  CHECK_THROWS_AS(write_new_file(folder / "f", "2"), Error);
  CHECK(read_file(folder / "f", 10) == "1");
}

TEST_CASE("a new file that cannot be written is not left behind") {
  TemporaryFolder folder;
  for (int k = 0; k < 4; ++k) {  // open, write, fsync, close
    CAPTURE(k);
    FailingFileOps failing(k);
    const FileOpsOverride override_ops(failing);
    CHECK_THROWS_AS(write_new_file(folder / "f", "1"), Error);
    CHECK_FALSE(std::filesystem::exists(folder / "f"));
  }
}

TEST_CASE("folders are made with those above them") {
  TemporaryFolder folder;
  make_folders(folder / "a/b/c");
  make_folders(folder / "a/b/c");
  CHECK(std::filesystem::is_directory(folder / "a/b/c"));
  write_new_file(folder / "f", "");
  CHECK_THROWS_WITH(make_folders(folder / "f"), Catch::Contains("File exists"));
  CHECK_THROWS_WITH(make_folders(folder / "f/g"), Catch::Contains("Not a directory"));
}

TEST_CASE("a free path is the first that does not exist") {
  TemporaryFolder folder;
  CHECK(free_path(folder / "a", ".txt") == folder / "a.txt");
  write_new_file(folder / "a.txt", "");
  CHECK(free_path(folder / "a", ".txt") == folder / "a-2.txt");
  make_folders(folder / "a-2.txt");
  CHECK(free_path(folder / "a", ".txt") == folder / "a-3.txt");
  CHECK(free_path(folder.path()) == folder.path() + "-2");
}

TEST_CASE("removing a tree removes links, not what they point to") {
  TemporaryFolder folder;
  make_folders(folder / "keep");
  write_new_file(folder / "keep/f", "1");
  make_folders(folder / "gone/sub");
  write_new_file(folder / "gone/sub/f", "1");
  REQUIRE(symlink((folder / "keep").c_str(), (folder / "gone/link").c_str()) == 0);
  remove_tree(folder / "gone");
  CHECK(list_folder(folder.path()) == std::vector<std::string>{"keep"});
  CHECK(read_file(folder / "keep/f", 10) == "1");
}

TEST_CASE("names of a folder come sorted; a folder that is not there is an error") {
  TemporaryFolder folder;
  for (const char* name : {"b", "a", "c"}) write_new_file(folder / name, "");
  CHECK(list_folder(folder.path()) == std::vector<std::string>{"a", "b", "c"});
  CHECK_THROWS_WITH(list_folder(folder / "none"), Catch::Contains("No such file or directory"));
}

TEST_CASE("the parent of a path is the folder that it is in") {
  CHECK(parent_folder("a/b/c") == "a/b");
  CHECK(parent_folder("/a") == "/");
  CHECK(parent_folder("c") == ".");
}

TEST_CASE("a path is looked at through links") {
  TemporaryFolder folder;
  write_new_file(folder / "f", "");
  REQUIRE(symlink(folder.path().c_str(), (folder / "link").c_str()) == 0);
  REQUIRE(symlink("nowhere", (folder / "dangling").c_str()) == 0);
  CHECK(path_exists(folder / "f"));
  CHECK_FALSE(is_folder(folder / "f"));
  CHECK(is_folder(folder / "link"));
  for (const char* name : {"none", "dangling", "f/below a file"}) {
    CHECK_FALSE(path_exists(folder / name));
    CHECK_FALSE(is_folder(folder / name));
  }
}

TEST_CASE("a path that cannot be examined is an error of the kind asked for") {
  TemporaryFolder folder;
  REQUIRE(symlink("loop", (folder / "loop").c_str()) == 0);
  const auto error_of = [](const std::string& path) {
    try {
      path_exists(path, ErrorKind::kConfig);
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::kConfig);
      CHECK_FALSE(e.hint().empty());
      return e.message();
    }
    return std::string();
  };
  CHECK(error_of(folder / "loop").ends_with(": Too many levels of symbolic links"));
  CHECK(error_of(folder / std::string(300, 'x')).ends_with(": File name too long"));
  FailingStat bad_disk("/f");
  const FileOpsOverride override_ops(bad_disk);
  CHECK(error_of(folder / "f").ends_with(": Input/output error"));
}
