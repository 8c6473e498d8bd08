#include "recording_file_ops.h"

#include <fcntl.h>
#include <unistd.h>

namespace hgt {

void RecordingFileOps::add(FileOp op) {
  const std::lock_guard lock(mutex_);
  log_.push_back(std::move(op));
}

int RecordingFileOps::open(const char* path, int flags, mode_t mode) {
  const bool existed = ::access(path, F_OK) == 0;
  const int fd = FileOps::open(path, flags, mode);
  if (fd < 0) return fd;
  if (!existed) add({FileOp::kCreate, path, "", 0, "", 0});
  if (existed && (flags & O_TRUNC) != 0) add({FileOp::kTruncate, path, "", 0, "", 0});
  const std::lock_guard lock(mutex_);
  open_[fd] = {path, 0};
  return fd;
}

ssize_t RecordingFileOps::write(int fd, const void* buffer, std::size_t bytes) {
  const ssize_t done = FileOps::write(fd, buffer, bytes);
  if (done <= 0) return done;
  const std::lock_guard lock(mutex_);
  Open& file = at(fd);
  log_.push_back({FileOp::kWrite, file.path, "", file.position,
                  std::string(static_cast<const char*>(buffer), static_cast<std::size_t>(done)),
                  0});
  file.position += done;
  return done;
}

ssize_t RecordingFileOps::pwrite(int fd, const void* buffer, std::size_t bytes, off_t offset) {
  const ssize_t done = FileOps::pwrite(fd, buffer, bytes, offset);
  if (done <= 0) return done;
  const std::lock_guard lock(mutex_);
  log_.push_back({FileOp::kWrite, at(fd).path, "", offset,
                  std::string(static_cast<const char*>(buffer), static_cast<std::size_t>(done)),
                  0});
  return done;
}

int RecordingFileOps::fsync(int fd) {
  const std::lock_guard lock(mutex_);
  log_.push_back({FileOp::kSync, at(fd).path, "", 0, "", 0});
  return 0;  // the log is what counts; the disk need not work for it
}

int RecordingFileOps::close(int fd) {
  {
    const std::lock_guard lock(mutex_);
    open_.erase(fd);
  }
  return FileOps::close(fd);
}

int RecordingFileOps::ftruncate(int fd, off_t bytes) {
  const int result = FileOps::ftruncate(fd, bytes);
  const std::lock_guard lock(mutex_);
  if (result == 0) log_.push_back({FileOp::kTruncate, at(fd).path, "", bytes, "", 0});
  return result;
}

int RecordingFileOps::rename(const char* from, const char* to) {
  const int result = FileOps::rename(from, to);
  if (result == 0) add({FileOp::kRename, from, to, 0, "", 0});
  return result;
}

int RecordingFileOps::mkdir(const char* path, mode_t mode) {
  const int result = FileOps::mkdir(path, mode);
  if (result == 0) add({FileOp::kMkdir, path, "", 0, "", 0});
  return result;
}

int RecordingFileOps::unlink(const char* path) {
  const int result = FileOps::unlink(path);
  if (result == 0) add({FileOp::kUnlink, path, "", 0, "", 0});
  return result;
}

int RecordingFileOps::rmdir(const char* path) {
  const int result = FileOps::rmdir(path);
  if (result == 0) add({FileOp::kRmdir, path, "", 0, "", 0});
  return result;
}

}  // namespace hgt
