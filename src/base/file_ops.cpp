#include "hgtrain/base/file_ops.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <unistd.h>

namespace hgt {

int FileOps::open(const char* path, int flags, mode_t mode) {
  return ::open(path, flags, mode);
}
ssize_t FileOps::read(int fd, void* buffer, std::size_t bytes) {
  return ::read(fd, buffer, bytes);
}
ssize_t FileOps::pread(int fd, void* buffer, std::size_t bytes, off_t offset) {
  return ::pread(fd, buffer, bytes, offset);
}
ssize_t FileOps::write(int fd, const void* buffer, std::size_t bytes) {
  return ::write(fd, buffer, bytes);
}
ssize_t FileOps::pwrite(int fd, const void* buffer, std::size_t bytes, off_t offset) {
  return ::pwrite(fd, buffer, bytes, offset);
}
int FileOps::fsync(int fd) {
  return ::fsync(fd);
}
int FileOps::close(int fd) {
  return ::close(fd);
}
int FileOps::fstat(int fd, struct stat* status) {
  return ::fstat(fd, status);
}
int FileOps::stat(const char* path, struct stat* status) {
  return ::stat(path, status);
}
int FileOps::ftruncate(int fd, off_t bytes) {
  return ::ftruncate(fd, bytes);
}
int FileOps::fallocate(int fd, off_t bytes) {
  return ::fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, bytes);
}
int FileOps::rename(const char* from, const char* to) {
  return ::rename(from, to);
}
int FileOps::mkdir(const char* path, mode_t mode) {
  return ::mkdir(path, mode);
}
int FileOps::unlink(const char* path) {
  return ::unlink(path);
}
int FileOps::rmdir(const char* path) {
  return ::rmdir(path);
}
int FileOps::flock(int fd, int operation) {
  return ::flock(fd, operation);
}
int FileOps::list(const char* path, std::vector<std::string>& names) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (fs::directory_iterator i(path, error), end; !error && i != end; i.increment(error))
    names.push_back(i->path().filename().string());
  errno = error.value();
  return error ? -1 : 0;
}

namespace {
FileOps real_ops;
std::atomic<FileOps*> current{&real_ops};
}  // namespace

FileOps& file_ops() noexcept {
  return *current.load();
}

FileOpsOverride::FileOpsOverride(FileOps& ops) noexcept : before_(current.exchange(&ops)) {}
FileOpsOverride::~FileOpsOverride() {
  current.store(before_);
}

}  // namespace hgt
