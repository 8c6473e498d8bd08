#include "remote_file_ops.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <sys/socket.h>
#include <thread>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"

#include "support/failing_file_ops.h"
#include "support/temporary_folder.h"

using namespace hgt;

namespace {

/// The operations of a rank that reaches `folder` through a service, which works with `ops`.
class Remote {
 public:
  explicit Remote(const std::string& folder, FileOps& ops, const std::string& here = "")
      : folders_{full_path(folder)} {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    ops_.emplace(OwnedFd(ends[0]),
                 std::vector<RemoteFolder>{{full_path(here.empty() ? folder : here), folders_[0]}},
                 "rank 0");
    service_ = std::jthread([this, &ops, end = ends[1]] {
      const OwnedFd socket(end);
      FileService service(folders_, ops);
      serve_files(socket, service);
    });
  }
  ~Remote() { ops_->abort(); }
  RemoteFileOps& ops() { return *ops_; }

 private:
  const std::vector<std::string> folders_;
  std::optional<RemoteFileOps> ops_;
  std::jthread service_;
};

/// Real operations that count the files which are opened.
class CountingOps : public FileOps {
 public:
  int open(const char* path, int flags, mode_t mode) override {
    ++opened;
    return FileOps::open(path, flags, mode);
  }
  std::atomic<int> opened = 0;
};

}  // namespace

TEST_CASE("a folder may have another path here than there") {
  const TemporaryFolder folder;
  CountingOps there;
  Remote remote(folder.path(), there, "runs/mine");
  const FileOpsOverride in_use(remote.ops());
  make_folders("runs/mine/a");
  write_file_atomically("runs/mine/a/text", "some text");
  CHECK(read_file("runs/mine/a/text", 100) == "some text");
  CHECK(list_folder("runs/mine/a") == std::vector<std::string>{"text"});
  CHECK(there.opened > 0);
  CHECK(std::filesystem::exists(folder / "a/text"));
  CHECK_FALSE(std::filesystem::exists("runs/mine"));
}

TEST_CASE("everything that files are used for works from afar") {
  const TemporaryFolder folder;
  CountingOps there;
  Remote remote(folder.path(), there);
  const FileOpsOverride in_use(remote.ops());
  make_folders(folder / "a/b");
  write_file_atomically(folder / "a/b/text", "some text");
  CHECK(read_file(folder / "a/b/text", 100) == "some text");
  CHECK(list_folder(folder / "a/b") == std::vector<std::string>{"text"});
  rename_path(folder / "a/b/text", folder / "moved");
  CHECK(path_exists(folder / "moved"));
  CHECK_FALSE(path_exists(folder / "a/b/text"));
  CHECK(is_folder(folder / "a"));
  remove_tree(folder / "a");
  CHECK_FALSE(path_exists(folder / "a"));

  File file = File::open(folder / "large", O_RDWR | O_CREAT | O_EXCL);
  std::vector<std::byte> bytes(3 * kMaxFileBytes + 5);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i * 7 % 251);
  file.reserve(std::ssize(bytes));
  file.write_at(0, bytes);
  file.sync();
  CHECK(file.size() == std::ssize(bytes));
  std::vector<std::byte> back(bytes.size());
  file.read_at(0, back);
  CHECK(std::ranges::equal(back, bytes));
  file.truncate(3);
  CHECK(file.size() == 3);
  file.close();
  CHECK(there.opened >= 4);
}

TEST_CASE("files elsewhere stay this rank's own") {
  const TemporaryFolder folder, own;
  CountingOps there;
  Remote remote(folder.path(), there);
  const FileOpsOverride in_use(remote.ops());
  write_file_atomically(own / "text", "mine");
  CHECK(read_file(own / "text", 100) == "mine");
  CHECK(there.opened == 0);
}

TEST_CASE("an error there is the same error here") {
  const TemporaryFolder folder;
  FailingFileOps there(1, ENOSPC);
  Remote remote(folder.path(), there);
  const FileOpsOverride in_use(remote.ops());
  try {
    write_new_file(folder / "text", "some text");
    FAIL("was written");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kData);
    CHECK(error.message() == "cannot write " + (folder / "text") + ": No space left on device");
  }
  CHECK(remote.ops().open((folder / "text").c_str(), O_RDONLY | O_DIRECT, 0) == -1);
  CHECK(errno == EINVAL);
}

TEST_CASE("a rank that is lost is named by every call but close") {
  const TemporaryFolder folder;
  write_new_file(folder / "text", "some text");
  FileOps there;
  Remote remote(folder.path(), there);
  const FileOpsOverride in_use(remote.ops());
  const File file = File::open(folder / "text", O_RDONLY);
  remote.ops().abort();
  for (int time = 0; time < 2; ++time) try {
      (void)file.size();
      FAIL("was answered");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kPeer);
      CHECK(error.message() ==
            (time == 0 ? error.message()
                       : "lost rank 0, which has the run folder: it has closed the connection"));
    }
}  // closes the file

TEST_CASE("a damaged call ends the connection") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const OwnedFd here(ends[0]), there(ends[1]);
  const FileCall call{.kind = FileCall::kPwrite, .data_bytes = kMaxFileBytes + 1};
  REQUIRE(send(here.get(), &call, sizeof call, 0) == sizeof call);
  FileOps ops;
  FileService service({"/nowhere"}, ops);
  serve_files(there, service);  // returns
}
