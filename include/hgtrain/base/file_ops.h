#pragma once

#include <cstddef>
#include <string>
#include <sys/stat.h>
#include <sys/types.h>
#include <vector>

namespace hgt {

/// The system calls that hgtrain reads and changes files with, in one table that can be replaced:
/// by a test, to record them or to fail the k-th; by a rank that reaches some files through another
/// one (comm/owner_files.h). Each member behaves as the call it is named after: -1 and errno on
/// failure. The members of this class are the real ones. Called from several threads at once.
class FileOps {
 public:
  virtual ~FileOps() = default;
  virtual int open(const char* path, int flags, mode_t mode);
  virtual ssize_t read(int fd, void* buffer, std::size_t bytes);
  virtual ssize_t pread(int fd, void* buffer, std::size_t bytes, off_t offset);
  virtual ssize_t write(int fd, const void* buffer, std::size_t bytes);
  virtual ssize_t pwrite(int fd, const void* buffer, std::size_t bytes, off_t offset);
  virtual int fsync(int fd);
  virtual int close(int fd);
  virtual int fstat(int fd, struct stat* status);
  virtual int stat(const char* path, struct stat* status);
  virtual int ftruncate(int fd, off_t bytes);
  virtual int fallocate(int fd, off_t bytes);  ///< whole range from 0, size unchanged
  virtual int rename(const char* from, const char* to);
  virtual int mkdir(const char* path, mode_t mode);
  virtual int unlink(const char* path);
  virtual int rmdir(const char* path);
  virtual int flock(int fd, int operation);
  /// Adds the names in a folder, without "." and "..", in any order.
  virtual int list(const char* path, std::vector<std::string>& names);
};

/// The table in use: the real one, or the innermost override's.
FileOps& file_ops() noexcept;

/// Puts `ops` in place of the table for as long as it lives, in every thread.
class FileOpsOverride {
 public:
  explicit FileOpsOverride(FileOps& ops) noexcept;
  ~FileOpsOverride();
  FileOpsOverride(const FileOpsOverride&) = delete;
  FileOpsOverride& operator=(const FileOpsOverride&) = delete;

 private:
  FileOps* before_;
};

}  // namespace hgt
