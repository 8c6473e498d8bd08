#include "file_service.h"

#include <cerrno>
#include <cstring>

#include <catch2/catch.hpp>

#include "hgtrain/base/file.h"

#include "support/temporary_folder.h"

using namespace hgt;

namespace {

struct Asked {
  FileAnswer answer;
  std::string data;
};

Asked ask(FileService& service, const FileCall& call, const std::string& data = "") {
  std::vector<std::byte> out;
  const FileAnswer answer = service.answer(call, std::as_bytes(std::span(data)), out);
  return {answer, {reinterpret_cast<const char*>(out.data()), out.size()}};
}

}  // namespace

TEST_CASE("a path is distinguished from those of other folders") {
  for (const char* path : {"/runs/a", "/runs/a/x/y"}) CHECK(lies_in(path, "/runs/a"));
  for (const char* path : {"/runs/ab", "/runs", "/", "/runs/a.bak/z"})
    CHECK_FALSE(lies_in(path, "/runs/a"));
  CHECK(full_path("/runs/./b/../a/") == "/runs/a");
  CHECK(full_path("runs/a").ends_with("/runs/a"));
}

TEST_CASE("files in the folders are read and written") {
  const TemporaryFolder folder;
  write_new_file(folder / "file", "0123456789");
  FileOps ops;
  FileService service({folder.path()}, ops);
  const int file = static_cast<int>(
      ask(service, {.kind = FileCall::kOpen, .flags = O_RDWR}, folder / "file").answer.result);
  REQUIRE(file >= 0);
  const FileCall read{.kind = FileCall::kPread, .file = file, .offset = 4, .bytes = 100};
  CHECK(ask(service, read).data == "456789");
  CHECK(ask(service, {.kind = FileCall::kPwrite, .file = file, .offset = 5}, "abc").answer.result ==
        3);
  CHECK(ask(service, read).data == "4abc89");
  CHECK(ask(service, {.kind = FileCall::kTruncate, .file = file, .offset = 6}).answer.result == 0);
  struct stat status {};
  std::memcpy(&status, ask(service, {.kind = FileCall::kFstat, .file = file}).data.data(),
              sizeof status);
  CHECK(status.st_size == 6);
  CHECK(ask(service, {.kind = FileCall::kFsync, .file = file}).answer.result == 0);
  CHECK(ask(service, {.kind = FileCall::kClose, .file = file}).answer.result == 0);
  CHECK(ask(service, {.kind = FileCall::kList}, folder.path()).data == std::string("file\0", 5));
}

TEST_CASE("an error keeps its number") {
  const TemporaryFolder folder;
  FileOps ops;
  FileService service({folder.path()}, ops);
  const Asked missing = ask(service, {.kind = FileCall::kStat}, folder / "missing");
  CHECK(missing.answer.result == -1);
  CHECK(missing.answer.error_number == ENOENT);
  CHECK(missing.data.empty());
}

TEST_CASE("nothing outside the folders is touched, and no file that was not opened") {
  const TemporaryFolder folder, outside;
  write_new_file(outside / "file", "secret");
  write_new_file(folder / "file", "");
  FileOps ops;
  FileService service({folder.path()}, ops);
  for (const std::string& path :
       {outside / "file", folder / "../" + outside.path().substr(1) + "/file", std::string("file"),
        std::string(), folder / "file" + std::string(1, '\0') + "x"})
    for (const auto kind : {FileCall::kOpen, FileCall::kStat, FileCall::kList, FileCall::kUnlink,
                            FileCall::kMakeFolder, FileCall::kRemoveFolder})
      CHECK(ask(service, {.kind = kind}, path).answer.error_number == EACCES);
  for (const std::string& to : {outside / "moved", std::string()})
    CHECK(ask(service, {.kind = FileCall::kRename}, folder / "file" + '\0' + to)
              .answer.error_number == EACCES);
  for (const std::uint32_t kind :
       {FileCall::kPread + 0, FileCall::kPwrite + 0, FileCall::kClose + 0, 1000u})
    CHECK(ask(service, {.kind = static_cast<FileCall::Kind>(kind), .file = 1, .bytes = 8})
              .answer.error_number == EBADF);
}
