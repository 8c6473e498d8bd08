#include "run_writer.h"

#include <cerrno>

#include <catch2/catch.hpp>

#include "hgtrain/base/file_ops.h"
#include "hgtrain/base/philox.h"

#include "run_reader.h"
#include "support/temporary_folder.h"

using namespace hgt;

namespace {

constexpr std::int64_t kBytes = 9 * RunBuffers::kBytes + 1234;

std::vector<std::byte> random_bytes() {
  std::vector<std::byte> bytes(kBytes);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(philox(1, 2, i / 16)[i / 4 % 4] >> (i % 4 * 8));
  return bytes;
}

/// Pieces of the file that are written by turns, each in several calls: some begin and end in the
/// middle of a page, some hold no whole page.
std::vector<Range> cuts() {
  return {{0, 100}, {100, 5000}, {5000, 8192}, {8192, 9000}, {9000, 9001}, {9001, kBytes}};
}

void write_all(const std::string& path, const std::vector<std::byte>& bytes, std::size_t step) {
  File::open(path, O_WRONLY | O_CREAT).truncate(kBytes);
  for (const std::size_t first : {1, 0}) {
    RunWriter writer(path);
    const std::vector<Range> all = cuts();
    for (std::size_t i = first; i < all.size(); i += 2)
      for (auto at = static_cast<std::size_t>(all[i].begin);
           at < static_cast<std::size_t>(all[i].end); at += step)
        writer.put(static_cast<std::int64_t>(at),
                   std::span(bytes).subspan(
                       at, std::min(step, static_cast<std::size_t>(all[i].end) - at)));
    writer.finish();
  }
}

/// Reads every second cut, and all of it, and compares.
void require_content(const std::string& path, const std::vector<std::byte>& bytes, bool direct) {
  for (const std::size_t first : {0, 1}) {
    std::vector<Range> wanted;
    for (std::size_t i = first; i < cuts().size(); i += 2) wanted.push_back(cuts()[i]);
    RunReader reader(path, wanted, direct);
    for (const Range& range : wanted)
      for (std::int64_t at = range.begin; at < range.end; at += 70'001) {
        std::vector<std::byte> read(
            static_cast<std::size_t>(std::min<std::int64_t>(70'001, range.end - at)));
        reader.read(at, read);
        REQUIRE(std::equal(read.begin(), read.end(), bytes.begin() + at));
      }
    std::vector<std::byte> more(kBytes);
    CHECK_THROWS_AS(reader.read(kBytes - 1, more), Error);
  }
}

/// A file system that refuses O_DIRECT when a file is opened, or in every call after that; or one
/// that does a page at a time.
struct Odd final : FileOps {
  enum Kind { kNoOpen, kNoCall, kShort } kind = kNoOpen;
  int direct_fd = -1;
  int open(const char* path, int flags, mode_t mode) override {
    if ((flags & O_DIRECT) == 0) return FileOps::open(path, flags, mode);
    if (kind != kNoOpen) return direct_fd = FileOps::open(path, flags & ~O_DIRECT, mode);
    errno = EINVAL;
    return -1;
  }
  bool refuses(int fd) const {
    if (fd == direct_fd && kind == kNoCall) errno = EINVAL;
    return fd == direct_fd && kind == kNoCall;
  }
  std::size_t at_most(int fd, std::size_t bytes) const {
    return fd == direct_fd && kind == kShort ? std::min<std::size_t>(bytes, 4096) : bytes;
  }
  ssize_t pread(int fd, void* out, std::size_t bytes, off_t offset) override {
    return refuses(fd) ? -1 : FileOps::pread(fd, out, at_most(fd, bytes), offset);
  }
  ssize_t pwrite(int fd, const void* from, std::size_t bytes, off_t offset) override {
    return refuses(fd) ? -1 : FileOps::pwrite(fd, from, at_most(fd, bytes), offset);
  }
};

}  // namespace

TEST_CASE("bytes that are written in any pieces are read back, past the page cache or through it") {
  const std::vector<std::byte> bytes = random_bytes();
  const TemporaryFolder disk;
  const TemporaryFolder memory(TemporaryFolder::kMemory);
  for (const TemporaryFolder* folder : {&disk, &memory})
    for (const std::size_t step : {std::size_t{999}, std::size_t{1} << 18, std::size_t{kBytes}}) {
      write_all(*folder / "file", bytes, step);
      require_content(*folder / "file", bytes, true);
      require_content(*folder / "file", bytes, false);
    }
}

TEST_CASE("a file system that cannot go past the page cache is used through it") {
  const std::vector<std::byte> bytes = random_bytes();
  const TemporaryFolder folder;
  for (const Odd::Kind kind : {Odd::kNoOpen, Odd::kNoCall, Odd::kShort}) {
    Odd odd;
    odd.kind = kind;
    const FileOpsOverride override_ops(odd);
    write_all(folder / "file", bytes, 100'000);
    require_content(folder / "file", bytes, true);
  }
}

TEST_CASE("a piece that cannot be written or read is an error of a later call") {
  struct Full final : FileOps {
    ssize_t pwrite(int, const void*, std::size_t, off_t) override {
      errno = ENOSPC;
      return -1;
    }
    ssize_t pread(int, void*, std::size_t, off_t) override {
      errno = EIO;
      return -1;
    }
  };
  const TemporaryFolder folder;
  const std::vector<std::byte> bytes = random_bytes();
  write_all(folder / "file", bytes, kBytes);
  Full full;
  const FileOpsOverride override_ops(full);
  RunWriter writer(folder / "file");
  CHECK_THROWS_WITH(
      [&] {
        writer.put(0, bytes);
        writer.finish();
      }(),
      Catch::Contains("No space left on device"));
  const Range all{0, kBytes};
  RunReader reader(folder / "file", std::span(&all, 1), true);
  std::vector<std::byte> out(10);
  CHECK_THROWS_WITH(reader.read(0, out), Catch::Contains("Input/output error"));
}
