#include "hgtrain/base/file.h"

#include <cstring>
#include <functional>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "hgtrain/base/file_ops.h"

#include "support/failing_file_ops.h"
#include "support/temporary_folder.h"

using namespace hgt;

namespace {

/// A kernel that is interrupted before every call and then moves three bytes at most.
class Stutter : public FileOps {
 public:
  ssize_t read(int fd, void* buffer, std::size_t bytes) override {
    return interrupted() ? -1 : FileOps::read(fd, buffer, std::min<std::size_t>(bytes, 3));
  }
  ssize_t pread(int fd, void* buffer, std::size_t bytes, off_t offset) override {
    return interrupted() ? -1 : FileOps::pread(fd, buffer, std::min<std::size_t>(bytes, 3), offset);
  }
  ssize_t write(int fd, const void* buffer, std::size_t bytes) override {
    return interrupted() ? -1 : FileOps::write(fd, buffer, std::min<std::size_t>(bytes, 3));
  }
  ssize_t pwrite(int fd, const void* buffer, std::size_t bytes, off_t offset) override {
    return interrupted() ? -1
                         : FileOps::pwrite(fd, buffer, std::min<std::size_t>(bytes, 3), offset);
  }

 private:
  bool interrupted() {
    errno = EINTR;
    return odd_ = !odd_;
  }
  bool odd_ = false;
};

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

}  // namespace

TEST_CASE("short and interrupted reads and writes are continued") {
  TemporaryFolder folder;
  Stutter stutter;
  const FileOpsOverride override_ops(stutter);
  {
    File file = File::open(folder / "f", O_RDWR | O_CREAT);
    file.write("0123456789");
    file.write_at(4, std::as_bytes(std::span("abcdefgh", 8)));
    std::string back(8, ' ');
    file.read_at(4, std::as_writable_bytes(std::span(back)));
    CHECK(back == "abcdefgh");
  }
  CHECK(read_file(folder / "f", 100) == "0123abcdefgh");
}

TEST_CASE("read_file refuses what is larger than allowed") {
  TemporaryFolder folder;
  write_new_file(folder / "f", std::string(100, 'x'));
  CHECK(read_file(folder / "f", 100).size() == 100);
  CHECK(message_of([&] { read_file(folder / "f", 99); }) ==
        (folder / "f") + " is larger than 99 bytes");
}

TEST_CASE("errors name the path, errno's text and the kind asked for") {
  TemporaryFolder folder;
  CHECK(message_of([&] { read_file(folder / "none", 10); }) ==
        "cannot open " + (folder / "none") + ": No such file or directory");
  CHECK(message_of([&] { read_file(folder.path(), 10); }) ==
        folder.path() + " is a folder, not a file");
  try {
    read_file(folder.path(), 10, ErrorKind::kConfig);
  } catch (const Error& e) {
    CHECK(e.exit_code() == 2);
  }
  FailingFileOps full(1, ENOSPC);  // the open succeeds, the write does not
  const FileOpsOverride override_ops(full);
  try {
    write_new_file(folder / "f", "text");
    FAIL("written");
  } catch (const Error& e) {
    CHECK(e.message() == "cannot write " + (folder / "f") + ": No space left on device");
    CHECK(e.hint().find("space") != std::string::npos);
    CHECK(e.exit_code() == 4);
  }
}

TEST_CASE("reading past the end of a file is an error that says where it ends") {
  TemporaryFolder folder;
  write_new_file(folder / "f", "12345");
  const File file = File::open(folder / "f", O_RDONLY);
  std::string buffer(4, ' ');
  CHECK(message_of([&] { file.read_at(3, std::as_writable_bytes(std::span(buffer))); }) ==
        (folder / "f") + " ends at byte 5, but more was expected");
}

TEST_CASE("a pipe in the place of a file is refused at once") {
  TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const std::string refused = pipe + " is a pipe, not a file";
  CHECK(message_of([&] { read_file(pipe, 10); }) == refused);
  CHECK(message_of([&] { File::open(pipe, O_WRONLY | O_CREAT); }).starts_with(pipe + " is a pipe"));
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);  // now a writer is let in
  CHECK(message_of([&] { File::open(pipe, O_WRONLY); }) == refused);
  close(reader);
  CHECK(message_of([] { read_file("/dev/zero", 10); }) == "/dev/zero is a device, not a file");
}

TEST_CASE("a device can be written to, and waits") {
  const File file = File::open("/dev/null", O_WRONLY);
  CHECK((fcntl(file.fd(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("a folder is no input") {
  const TemporaryFolder folder;
  CHECK(message_of([&] { File::open_input(folder.path(), ErrorKind::kConfig); }) ==
        folder.path() + " is a folder, not a file");
}

TEST_CASE("a pipe that is named as input is read to its end, and waited for a while") {
  TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(message_of([&] {
          char byte = 0;
          File::open_input(pipe, ErrorKind::kConfig, 0)
              .read(std::as_writable_bytes(std::span(&byte, 1)));
        }) == "nothing came from " + pipe + " for 0 s");
  ssize_t written = 0;
  std::thread writer([&] {
    const int fd = open(pipe.c_str(), O_WRONLY);  // waits for the reader
    for (int i = 0; i < 2; ++i) written += write(fd, "text", 4);
    close(fd);
  });
  CHECK(read_input(pipe, 100, ErrorKind::kConfig) == "texttext");
  writer.join();
  CHECK(written == 8);
  write_new_file(folder / "f", "a file");
  CHECK(read_input(folder / "f", 100, ErrorKind::kConfig) == "a file");
  CHECK(message_of([&] { read_input(folder / "none", 1, ErrorKind::kConfig); }) ==
        "cannot open " + (folder / "none") + ": No such file or directory");
}

TEST_CASE("an open file is moved, not closed twice, and closed at the end") {
  TemporaryFolder folder;
  int fd = -1;
  {
    File first = File::open(folder / "f", O_WRONLY | O_CREAT);
    fd = first.fd();
    const File second = std::move(first);
    CHECK(second.fd() == fd);
    CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
  }
  CHECK(fcntl(fd, F_GETFD) == -1);
}

TEST_CASE("reserving space leaves the size as it is; truncate sets it") {
  TemporaryFolder folder;
  File file = File::open(folder / "f", O_WRONLY | O_CREAT);
  file.reserve(1 << 16);
  CHECK(file.size() == 0);
  file.truncate(10);
  CHECK(file.size() == 10);
  file.sync();
  file.close();
}
