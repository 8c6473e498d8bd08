#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "hgtrain/base/file_ops.h"

namespace hgt {

/// One call that changed something. Paths are absolute.
struct FileOp {
  enum Kind { kCreate, kTruncate, kWrite, kSync, kRename, kMkdir, kUnlink, kRmdir, kMark } kind;
  std::string path;
  std::string to;     ///< of a rename
  off_t offset = 0;   ///< of a write; the new size of a truncation
  std::string bytes;  ///< of a write
  long mark = 0;
};

/// The real calls, with a log of those that succeeded in changing something.
class RecordingFileOps : public FileOps {
 public:
  const std::vector<FileOp>& log() const { return log_; }
  /// Puts a note of the test's own into the log.
  void mark(long value) { add({FileOp::kMark, "", "", 0, "", value}); }

  int open(const char* path, int flags, mode_t mode) override;
  ssize_t write(int fd, const void* buffer, std::size_t bytes) override;
  ssize_t pwrite(int fd, const void* buffer, std::size_t bytes, off_t offset) override;
  int fsync(int fd) override;
  int close(int fd) override;
  int ftruncate(int fd, off_t bytes) override;
  int rename(const char* from, const char* to) override;
  int mkdir(const char* path, mode_t mode) override;
  int unlink(const char* path) override;
  int rmdir(const char* path) override;

 private:
  struct Open {
    std::string path;
    off_t position = 0;
  };
  void add(FileOp op);
  Open& at(int fd) { return open_.at(fd); }
  std::mutex mutex_;
  std::map<int, Open> open_;
  std::vector<FileOp> log_;
};

}  // namespace hgt
