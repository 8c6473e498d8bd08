#include "remote_file_ops.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/log.h"

namespace hgt {
namespace {

/// False, with errno, if not all could be sent.
bool send_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

/// The same; errno is 0 if the other end has closed the stream.
bool receive_all(int fd, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    errno = 0;
    const ssize_t got = ::recv(fd, bytes.data(), bytes.size(), MSG_WAITALL);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

template <class T>
std::span<std::byte> bytes_in(T& message) {
  return std::as_writable_bytes(std::span(&message, 1));
}

std::span<const std::byte> bytes_in(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

void serve_files(const OwnedFd& socket, FileService& service) {
  FileCall call;
  std::vector<std::byte> in, out;
  while (receive_all(socket.get(), bytes_in(call))) {
    if (call.data_bytes > kMaxFileBytes) return log_warning("a call for a file is damaged");
    in.resize(call.data_bytes);
    if (!receive_all(socket.get(), in)) return;
    FileAnswer answer = service.answer(call, in, out);
    if (!send_all(socket.get(), bytes_in(answer)) || !send_all(socket.get(), out)) return;
  }
}

std::int64_t RemoteFileOps::call(FileCall call, std::span<const std::byte> data,
                                 std::span<std::byte> out, std::size_t* got) {
  const std::lock_guard lock(calls_);
  call.data_bytes = static_cast<std::uint32_t>(data.size());
  FileAnswer answer;
  errno = 0;
  is_lost_ = is_lost_ || !send_all(service_.get(), bytes_in(call)) ||
             !send_all(service_.get(), data) || !receive_all(service_.get(), bytes_in(answer)) ||
             answer.data_bytes > out.size() ||
             !receive_all(service_.get(), out.first(answer.data_bytes));
  if (is_lost_)
    throw Error(ErrorKind::kPeer, fmt::format("lost {}, which has the run folder: {}", owner_,
                                              errno == EAGAIN ? "it does not answer"
                                              : errno == 0    ? "it has closed the connection"
                                                              : std::strerror(errno)));
  if (got != nullptr) *got = answer.data_bytes;
  errno = answer.error_number;
  return answer.result;
}

void RemoteFileOps::abort() noexcept {
  ::shutdown(service_.get(), SHUT_RDWR);
}

std::optional<std::string> RemoteFileOps::remote(const std::string& path) const {
  if (path.empty()) return std::nullopt;
  const std::string full = full_path(path);
  for (const RemoteFolder& folder : folders_)
    if (lies_in(full, folder.here)) return folder.there + full.substr(folder.here.size());
  return std::nullopt;
}

std::optional<RemoteFileOps::Open> RemoteFileOps::opened(int fd) {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(fd);
  return found == open_.end() ? std::nullopt : std::optional(found->second);
}

// ---- on paths ----

int RemoteFileOps::open(const char* path, int flags, mode_t mode) {
  const auto there = remote(path);
  if (!there) return FileOps::open(path, flags, mode);
  if ((flags & O_DIRECT) != 0) {
    errno = EINVAL;
    return -1;
  }
  const std::int64_t file =
      call({.kind = FileCall::kOpen, .flags = flags, .mode = mode}, bytes_in(*there), {});
  if (file < 0) return -1;
  const int fd = FileOps::open("/dev/null", O_RDONLY | O_CLOEXEC, 0);  // a number of its own
  if (fd < 0) {
    const int error_number = errno;
    call({.kind = FileCall::kClose, .file = static_cast<std::int32_t>(file)}, {}, {});
    errno = error_number;
    return -1;
  }
  const std::lock_guard lock(mutex_);
  open_[fd] = {static_cast<std::int32_t>(file)};
  return fd;
}

int RemoteFileOps::stat(const char* path, struct stat* status) {
  const auto there = remote(path);
  if (!there) return FileOps::stat(path, status);
  return static_cast<int>(call({.kind = FileCall::kStat}, bytes_in(*there), bytes_in(*status)));
}

int RemoteFileOps::rename(const char* from, const char* to) {
  const auto there = remote(from);
  if (!there) return FileOps::rename(from, to);
  const std::string both = *there + '\0' + remote(to).value_or(full_path(to));
  return static_cast<int>(call({.kind = FileCall::kRename}, bytes_in(both), {}));
}

int RemoteFileOps::call_on_path(FileCall::Kind kind, const std::string& path, mode_t mode) {
  return static_cast<int>(call({.kind = kind, .mode = mode}, bytes_in(path), {}));
}

int RemoteFileOps::mkdir(const char* path, mode_t mode) {
  const auto there = remote(path);
  return there ? call_on_path(FileCall::kMakeFolder, *there, mode) : FileOps::mkdir(path, mode);
}

int RemoteFileOps::unlink(const char* path) {
  const auto there = remote(path);
  return there ? call_on_path(FileCall::kUnlink, *there) : FileOps::unlink(path);
}

int RemoteFileOps::rmdir(const char* path) {
  const auto there = remote(path);
  return there ? call_on_path(FileCall::kRemoveFolder, *there) : FileOps::rmdir(path);
}

int RemoteFileOps::list(const char* path, std::vector<std::string>& names) {
  const auto there = remote(path);
  if (!there) return FileOps::list(path, names);
  std::string text(kMaxFileBytes, '\0');
  std::size_t got = 0;
  const std::int64_t result = call({.kind = FileCall::kList}, bytes_in(*there),
                                   std::as_writable_bytes(std::span(text)), &got);
  for (std::size_t begin = 0; begin < got; begin = text.find('\0', begin) + 1)
    names.emplace_back(text.c_str() + begin);
  return static_cast<int>(result);
}

// ---- on open files ----

ssize_t RemoteFileOps::pread(int fd, void* buffer, std::size_t bytes, off_t offset) {
  const auto file = opened(fd);
  if (!file) return FileOps::pread(fd, buffer, bytes, offset);
  bytes = std::min(bytes, kMaxFileBytes);
  return call({.kind = FileCall::kPread,
               .file = file->file,
               .offset = offset,
               .bytes = static_cast<std::uint32_t>(bytes)},
              {}, {static_cast<std::byte*>(buffer), bytes});
}

ssize_t RemoteFileOps::pwrite(int fd, const void* buffer, std::size_t bytes, off_t offset) {
  const auto file = opened(fd);
  if (!file) return FileOps::pwrite(fd, buffer, bytes, offset);
  return call({.kind = FileCall::kPwrite, .file = file->file, .offset = offset},
              {static_cast<const std::byte*>(buffer), std::min(bytes, kMaxFileBytes)}, {});
}

ssize_t RemoteFileOps::advance(int fd, ssize_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > 0) open_.at(fd).position += bytes;
  return bytes;
}

ssize_t RemoteFileOps::read(int fd, void* buffer, std::size_t bytes) {
  const auto file = opened(fd);
  return file ? advance(fd, pread(fd, buffer, bytes, file->position))
              : FileOps::read(fd, buffer, bytes);
}

ssize_t RemoteFileOps::write(int fd, const void* buffer, std::size_t bytes) {
  const auto file = opened(fd);
  return file ? advance(fd, pwrite(fd, buffer, bytes, file->position))
              : FileOps::write(fd, buffer, bytes);
}

int RemoteFileOps::fsync(int fd) {
  const auto file = opened(fd);
  return file ? static_cast<int>(call({.kind = FileCall::kFsync, .file = file->file}, {}, {}))
              : FileOps::fsync(fd);
}

int RemoteFileOps::fstat(int fd, struct stat* status) {
  const auto file = opened(fd);
  return file ? static_cast<int>(
                    call({.kind = FileCall::kFstat, .file = file->file}, {}, bytes_in(*status)))
              : FileOps::fstat(fd, status);
}

int RemoteFileOps::ftruncate(int fd, off_t bytes) {
  const auto file = opened(fd);
  return file ? static_cast<int>(call(
                    {.kind = FileCall::kTruncate, .file = file->file, .offset = bytes}, {}, {}))
              : FileOps::ftruncate(fd, bytes);
}

int RemoteFileOps::fallocate(int fd, off_t bytes) {
  const auto file = opened(fd);
  return file ? static_cast<int>(call(
                    {.kind = FileCall::kAllocate, .file = file->file, .offset = bytes}, {}, {}))
              : FileOps::fallocate(fd, bytes);
}

int RemoteFileOps::close(int fd) {
  const auto file = opened(fd);
  if (!file) return FileOps::close(fd);
  {
    const std::lock_guard lock(mutex_);
    open_.erase(fd);
  }
  FileOps::close(fd);
  try {
    return static_cast<int>(call({.kind = FileCall::kClose, .file = file->file}, {}, {}));
  } catch (const Error&) {
    errno = EIO;
    return -1;
  }
}

}  // namespace hgt
