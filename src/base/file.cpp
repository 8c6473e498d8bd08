#include "hgtrain/base/file.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
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
    default:
      return "";
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
  const int fd = retry([&] { return file_ops().open(path.c_str(), flags | O_CLOEXEC, mode); });
  if (fd < 0) throw_file_error((flags & O_CREAT) != 0 ? "create" : "open", path, errno, kind);
  return File(path, fd, kind);
}

void File::fail(const char* action) const {
  throw_file_error(action, path_, errno, kind_);
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), kind_(other.kind_) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(kind_, other.kind_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) file_ops().close(fd_);
}

std::int64_t File::size() const {
  struct stat status {};
  if (file_ops().fstat(fd_, &status) < 0) fail("look at");
  return status.st_size;
}

std::size_t File::read(std::span<std::byte> buffer) {
  std::size_t total = 0;
  while (total < buffer.size()) {
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
      throw Error(kind_, fmt::format("{} ends at byte {}, where more was expected", path_, offset));
    offset += done;
    buffer = buffer.subspan(static_cast<std::size_t>(done));
  }
}

void File::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = retry([&] { return file_ops().write(fd_, bytes.data(), bytes.size()); });
    if (done < 0) fail("write");
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void File::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
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
  // Linux releases the descriptor whatever close says, so an interrupted close is not repeated.
  if (file_ops().close(std::exchange(fd_, -1)) < 0 && errno != EINTR) fail("write");
}

std::string read_file(const std::string& path, std::int64_t max_bytes, ErrorKind kind) {
  File file = File::open(path, O_RDONLY, 0, kind);
  std::string text;
  for (std::size_t chunk = std::size_t{1} << 16;; chunk *= 2) {
    const std::size_t before = text.size();
    text.resize(std::min(before + chunk, static_cast<std::size_t>(max_bytes) + 1));
    const std::size_t got = file.read(std::as_writable_bytes(std::span(text).subspan(before)));
    text.resize(before + got);
    if (static_cast<std::int64_t>(text.size()) > max_bytes)
      throw Error(kind, fmt::format("{} is larger than {} bytes", path, max_bytes));
    if (got < chunk) return text;
  }
}

}  // namespace hgt
