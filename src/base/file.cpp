#include "hgtrain/base/file.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/file_ops.h"

namespace hgt {

namespace {

/// Repeats a call that a signal interrupted.
template <class Call>
auto retry(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

const char* hint_of(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return "free some space there, or choose a folder on another disk";
    case EACCES:
    case EPERM:
    case EROFS:
      return "check the permissions, or choose another folder";
    case EMFILE:
    case ENFILE:
      return "too many files are open; raise the limit with `ulimit -n`";
    case ENAMETOOLONG:
      return "choose a shorter one: a name has at most 255 bytes, a path 4095";
    case ELOOP:
      return "a symbolic link there leads back to itself; remove it, or choose another path";
    case EIO:
      return "the disk or the network file system fails there; `dmesg` says more";
    default:
      return "";
  }
}

const char* name_of_kind(mode_t mode) {
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISDIR(mode)) return "a folder";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

/// Whether a file of this kind is refused: pipes, and for reading also folders and devices.
bool is_refused(mode_t mode, int flags) {
  const bool writes_only = (flags & O_ACCMODE) == O_WRONLY;
  return S_ISFIFO(mode) ||
         (!writes_only && !S_ISREG(mode) && !(S_ISDIR(mode) && (flags & O_DIRECTORY) != 0));
}

std::string read_all(File file, std::int64_t max_bytes, ErrorKind kind) {
  std::string text;
  for (std::size_t chunk = std::size_t{1} << 16;; chunk *= 2) {
    const std::size_t before = text.size();
    text.resize(std::min(before + chunk, static_cast<std::size_t>(max_bytes) + 1));
    const std::size_t got = file.read(std::as_writable_bytes(std::span(text).subspan(before)));
    text.resize(before + got);
    if (static_cast<std::int64_t>(text.size()) > max_bytes)
      throw Error(kind, fmt::format("{} is larger than {} bytes", file.path(), max_bytes));
    if (got < chunk) return text;
  }
}

}  // namespace

void throw_file_error(std::string_view action, const std::string& path, int error_number,
                      ErrorKind kind) {
  throw Error(
      kind,
      fmt::format("cannot {} {}: {}", action, path, std::generic_category().message(error_number)),
      hint_of(error_number));
}

File File::open(const std::string& path, int flags, mode_t mode, ErrorKind kind) {
  // Without O_NONBLOCK, opening a pipe would wait for its other end.
  const int all_flags = flags | O_CLOEXEC | O_NONBLOCK;
  const int fd = retry([&] { return file_ops().open(path.c_str(), all_flags, mode); });
  if (fd < 0 && errno == ENXIO)
    throw Error(kind, path + " is a pipe, a socket or a device that no process has open",
                "name a regular file");
  if (fd < 0) throw_file_error((flags & O_CREAT) != 0 ? "create" : "open", path, errno, kind);
  File file(path, fd, kind);
  struct stat status {};
  if (file_ops().fstat(fd, &status) < 0) file.fail("access");
  if (is_refused(status.st_mode, flags))
    throw Error(kind, fmt::format("{} is {}, not a file", path, name_of_kind(status.st_mode)),
                "name a regular file");
  if (S_ISCHR(status.st_mode)) fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);  // /dev/stdout waits
  return file;
}

File File::open_input(const std::string& path, ErrorKind kind, int wait_ms) {
  if (path == "-") {
    const int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) throw_file_error("read", "standard input", errno, kind);
    return File("standard input", fd, kind);
  }
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  const int fd = retry([&] { return file_ops().open(path.c_str(), flags, 0); });
  if (fd < 0) throw_file_error("open", path, errno, kind);
  File file(path, fd, kind);
  struct stat status {};
  if (file_ops().fstat(fd, &status) < 0) file.fail("access");
  if (S_ISDIR(status.st_mode))
    throw Error(kind, fmt::format("{} is {}, not a file", path, name_of_kind(status.st_mode)),
                "name a file in it");
  file.wait_ms_ = wait_ms;
  return file;
}

void File::wait_for_input() const {
  pollfd ready{fd_, POLLIN, 0};
  const int count = retry([&] { return poll(&ready, 1, wait_ms_); });
  if (count < 0) fail("wait for");
  if (count == 0)
    throw Error(kind_, fmt::format("nothing came from {} for {} s", path_, wait_ms_ / 1000),
                "is a program writing to it? Write its output to a file first");
}

void File::fail(const char* action) const {
  throw_file_error(action, path_, errno, kind_);
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      kind_(other.kind_),
      wait_ms_(other.wait_ms_) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(kind_, other.kind_);
  std::swap(wait_ms_, other.wait_ms_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) file_ops().close(fd_);
}

std::int64_t File::size() const {
  struct stat status {};
  if (file_ops().fstat(fd_, &status) < 0) fail("access");
  return status.st_size;
}

std::size_t File::read(std::span<std::byte> buffer) {
  std::size_t total = 0;
  while (total < buffer.size()) {
    if (wait_ms_ != kNeverWaits) wait_for_input();
    const auto rest = buffer.subspan(total);
    const ssize_t done = retry([&] { return file_ops().read(fd_, rest.data(), rest.size()); });
    if (done < 0) fail("read");
    if (done == 0) break;
    total += static_cast<std::size_t>(done);
  }
  return total;
}

void File::read_at(std::int64_t offset, std::span<std::byte> buffer) const {
  while (!buffer.empty()) {
    const ssize_t done =
        retry([&] { return file_ops().pread(fd_, buffer.data(), buffer.size(), offset); });
    if (done < 0) fail("read");
    if (done == 0)
      throw Error(kind_, fmt::format("{} ends at byte {}, but more was expected", path_, offset));
    offset += done;
    buffer = buffer.subspan(static_cast<std::size_t>(done));
  }
}

std::pair<std::size_t, int> write_bytes(int fd, std::string_view text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written =
        retry([&] { return file_ops().write(fd, text.data() + done, text.size() - done); });
    if (written < 0) return {done, errno};
    done += static_cast<std::size_t>(written);
  }
  return {done, 0};
}

void File::write(std::span<const std::byte> bytes) {
  write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void File::write(std::string_view text) {
  const int error = write_bytes(fd_, text).second;
  if (error != 0) throw_file_error("write", path_, error, kind_);
}

void File::write_at(std::int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done =
        retry([&] { return file_ops().pwrite(fd_, bytes.data(), bytes.size(), offset); });
    if (done < 0) fail("write");
    offset += done;
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void File::truncate(std::int64_t bytes) {
  if (retry([&] { return file_ops().ftruncate(fd_, bytes); }) < 0) fail("truncate");
}

void File::reserve(std::int64_t bytes) {
  if (bytes > 0 && retry([&] { return file_ops().fallocate(fd_, bytes); }) < 0 &&
      errno != EOPNOTSUPP && errno != ENOSYS)
    fail("write");
}

void File::sync() {
  if (retry([&] { return file_ops().fsync(fd_); }) < 0) fail("write");
}

void File::close() {
  // Linux releases the descriptor even if close fails, so an interrupted close is not repeated.
  if (file_ops().close(std::exchange(fd_, -1)) < 0 && errno != EINTR) fail("write");
}

std::string read_file(const std::string& path, std::int64_t max_bytes, ErrorKind kind) {
  return read_all(File::open(path, O_RDONLY, 0, kind), max_bytes, kind);
}

std::string read_input(const std::string& path, std::int64_t max_bytes, ErrorKind kind) {
  return read_all(File::open_input(path, kind), max_bytes, kind);
}

}  // namespace hgt
