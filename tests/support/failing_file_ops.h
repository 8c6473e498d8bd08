#pragma once

#include <atomic>
#include <cerrno>

#include "hgtrain/base/file_ops.h"

namespace hgt {

/// The real calls, but the `fail_at`-th call that changes something fails with `error_number`; with
/// `for_good`, so does every later one. Counts the calls.
class FailingFileOps : public FileOps {
 public:
  explicit FailingFileOps(int fail_at = -1, int error_number = ENOSPC, bool for_good = false)
      : fail_at_(fail_at), error_number_(error_number), for_good_(for_good) {}
  int calls() const { return calls_; }

  int open(const char* path, int flags, mode_t mode) override {
    return fails() ? -1 : FileOps::open(path, flags, mode);
  }
  ssize_t write(int fd, const void* buffer, std::size_t bytes) override {
    return fails() ? -1 : FileOps::write(fd, buffer, bytes);
  }
  ssize_t pwrite(int fd, const void* buffer, std::size_t bytes, off_t offset) override {
    return fails() ? -1 : FileOps::pwrite(fd, buffer, bytes, offset);
  }
  int fsync(int fd) override { return fails() ? -1 : FileOps::fsync(fd); }
  int close(int fd) override {
    const int done = FileOps::close(fd);
    return fails() ? -1 : done;
  }
  int ftruncate(int fd, off_t bytes) override {
    return fails() ? -1 : FileOps::ftruncate(fd, bytes);
  }
  int fallocate(int fd, off_t bytes) override {
    return fails() ? -1 : FileOps::fallocate(fd, bytes);
  }
  int rename(const char* from, const char* to) override {
    return fails() ? -1 : FileOps::rename(from, to);
  }
  int mkdir(const char* path, mode_t mode) override {
    return fails() ? -1 : FileOps::mkdir(path, mode);
  }
  int unlink(const char* path) override { return fails() ? -1 : FileOps::unlink(path); }
  int rmdir(const char* path) override { return fails() ? -1 : FileOps::rmdir(path); }

 private:
  bool fails() {
    const int call = calls_++;
    if (call != fail_at_ && !(for_good_ && fail_at_ >= 0 && call > fail_at_)) return false;
    errno = error_number_;
    return true;
  }
  int fail_at_, error_number_;
  bool for_good_;
  std::atomic<int> calls_{0};
};

}  // namespace hgt
